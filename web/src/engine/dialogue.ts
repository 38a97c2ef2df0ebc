/** One conversation: what happens in it, and what has to be said to the server for it. No sockets, no sound. */

import type { LatencyTurn, Notice, SessionReport, Settings, Tool } from './api';
import type { SentClock } from './audio/gate';
import { type Action, type Conversation, EMPTY, reduce } from './conversation/reduce';
import { isUnanswered, replay } from './conversation/replay';
import { itemId } from './ids';
import { LatencyTracker } from './latency';
import type {
  ClientEvent,
  ErrorObject,
  FunctionCallItem,
  ResponseObject,
  ServerEvent,
  SessionObject,
} from './protocol/events';
import { difference, voiceOf } from './settings';
import { carryOut, toolObjects } from './tools';

/** Errors about races that have been decided: what was asked for is already so. */
const HARMLESS: ReadonlySet<string> = new Set([
  'response_cancel_not_active',
  'item_truncate_invalid_item_id',
  'item_retrieve_invalid_item_id',
  'item_delete_invalid_item_id',
]);
const SETTINGS = 'settings';
const USUAL_PREFIX_MS = 300;

export interface DialogueParts {
  send(event: ClientEvent): void;
  /** Where the sound is played: here it has to be stopped and measured here. */
  readonly local: () => boolean;
  /** Whether something is being played. */
  readonly playing: () => boolean;
  /** Stop what plays. Only asked for where it is played here. */
  stop(): void;
  readonly settings: () => Settings;
  readonly sent: () => SentClock;
  now(): number;
  readonly tools: readonly Tool[];
  /** Something that can be seen has changed. */
  changed(): void;
  session(report: Partial<SessionReport>): void;
  vad(state: 'quiet' | 'speech'): void;
  notice(notice: Notice): void;
}

export class Dialogue {
  readonly #parts: DialogueParts;
  readonly latency = new LatencyTracker();
  #state: Conversation = EMPTY;
  #session: SessionObject | null = null;
  #fresh = true;
  #spoke = false;
  /** What was last said of the settings: saying it again would change nothing. */
  #asked: string | null = null;
  #own = '';
  /** An answer is wanted as soon as the one under way is done. */
  #wanting = false;
  /** Responses whose sound is not to be played any more. */
  readonly #silenced = new Set<string>();
  #calls: FunctionCallItem[] = [];
  #decided = 0;

  constructor(parts: DialogueParts) {
    this.#parts = parts;
  }

  get state(): Conversation {
    return this.#state;
  }

  // From the server

  receive(event: ServerEvent): void {
    this.#reduce({ type: 'server', event, at: this.#parts.now() });
    switch (event.type) {
      case 'session.created':
        this.#greeted(event.session);
        break;
      case 'session.updated':
        this.#updated(event.session);
        break;
      case 'input_audio_buffer.speech_started':
        this.#speechStarted(event.audio_start_ms);
        break;
      case 'input_audio_buffer.speech_stopped':
        this.#speechStopped(event.audio_end_ms);
        break;
      case 'input_audio_buffer.cleared':
        this.latency.turnResumed();
        break;
      case 'response.created':
        this.latency.responseBegan(event.response.id);
        break;
      case 'response.output_item.done':
        if (event.item.type === 'function_call' && event.item.status === 'completed') this.#calls.push(event.item);
        return;
      case 'response.done':
        this.#responseDone(event.response);
        break;
      case 'conversation.item.truncated':
        this.#parts.send({ type: 'conversation.item.retrieve', item_id: event.item_id });
        break;
      case 'error':
        this.#failed(event.error);
        break;
    }
  }

  /** Whether a piece of sound is to be played. */
  admit(itemId: string, responseId: string, ms: number): boolean {
    this.#spoke = true;
    if (this.#silenced.has(responseId)) return false;
    this.#reduce({ type: 'audio', itemId, responseId, ms, at: this.#parts.now() });
    return true;
  }

  /** The session is gone. */
  disconnected(): void {
    this.#session = null;
    this.#wanting = false;
    this.#calls = [];
    this.latency.turnResumed();
    this.#reduce({ type: 'disconnected' });
  }

  // From playback

  played(itemId: string, ms: number): void {
    this.#reduce({ type: 'played', itemId, ms });
  }

  drained(itemId: string): void {
    this.#reduce({ type: 'drained', itemId });
  }

  /** An item's sound was stopped after so much of it. */
  cut(itemId: string, ms: number): void {
    this.#reduce({ type: 'cut', itemId, ms });
    if (this.#parts.local()) {
      const place = { item_id: itemId, content_index: 0, audio_end_ms: Math.floor(ms) } as const;
      this.#parts.send({ type: 'conversation.item.truncate', ...place });
    }
  }

  /** A piece of the assistant's voice was heard; see {@link LatencyTracker.heard}. */
  heard(end: number, loud: { first: number; last: number } | null): void {
    const before = this.latency.report();
    const turn = this.latency.heard(end, loud);
    if (turn !== null) {
      this.#spoke = true;
      this.#tellLatency(turn);
    } else if (this.latency.report() !== before) this.#parts.changed();
  }

  // From the person

  say(text: string): void {
    this.interrupt();
    const id = itemId();
    const content = [{ type: 'input_text', text }] as const;
    this.#parts.send({ type: 'conversation.item.create', item: { id, type: 'message', role: 'user', content } });
    this.#reduce({ type: 'wrote', itemId: id, text, at: this.#parts.now() });
    this.ask(this.#parts.now());
  }

  /** What was said by hand is complete since `ended`, and wants an answer. */
  ask(ended: number): void {
    this.latency.turnEnded(ended, 'release');
    this.#want();
  }

  /** Whether there was an answer to cut off. */
  interrupt(): boolean {
    const { response } = this.#state;
    const playing = this.#parts.playing();
    if (response !== null) this.#parts.send({ type: 'response.cancel', response_id: response });
    if (response === null && !playing) return false;
    if (playing) this.latency.interrupted(this.#parts.now(), this.#parts.now());
    if (this.#parts.local()) this.#silence();
    else this.#parts.send({ type: 'output_audio_buffer.clear' });
    return true;
  }

  forget(): void {
    for (const { id } of this.#state.entries) this.#parts.send({ type: 'conversation.item.delete', item_id: id });
    this.#state = { ...EMPTY, response: this.#state.response, pace: this.#state.pace };
    this.#parts.changed();
  }

  /** The person wants something else. */
  settingsChanged(): void {
    this.#asked = null;
    this.#synchronise();
  }

  /** Tell the server what the person wants and it does not know yet. */
  #synchronise(): void {
    if (this.#session === null) return;
    const busy = this.#state.response !== null;
    const standing = { busy, spoke: this.#spoke, fresh: this.#fresh, instructions: this.#own };
    const tools = toolObjects(this.#parts.tools);
    const { patch, pending } = difference(this.#parts.settings(), this.#session, standing, tools);
    this.#parts.session({ pending });
    const said = JSON.stringify(patch);
    if (patch === null || said === this.#asked) return;
    this.#asked = said;
    this.#parts.send({ type: 'session.update', event_id: SETTINGS, session: patch });
  }

  // What follows

  #greeted(session: SessionObject): void {
    this.#fresh = true;
    this.#spoke = false;
    this.#silenced.clear();
    this.#asked = null;
    this.#session = session;
    this.#own = this.#parts.settings().instructions === '' ? session.instructions : '';
    this.#parts.session({ id: session.id, model: session.model, expiresAtEpoch: epoch(session.expires_at) });
    this.#parts.session({ voice: voiceOf(session) });
    this.#synchronise();
    this.#fresh = false;
    for (const event of replay(this.#state.entries)) this.#parts.send(event);
    if (isUnanswered(this.#state.entries)) this.#want();
  }

  #updated(session: SessionObject): void {
    this.#session = session;
    this.#parts.session({ voice: voiceOf(session) });
    this.#synchronise();
  }

  #speechStarted(startMs: number): void {
    this.#parts.vad('speech');
    this.latency.turnResumed();
    const detection = this.#session?.audio.input.turn_detection;
    if (detection == null || detection.interrupt_response === false) return;
    const now = this.#parts.now();
    if (this.#parts.playing()) {
      const prefix =
        detection.type === 'server_vad' ? (detection.prefix_padding_ms ?? USUAL_PREFIX_MS) : USUAL_PREFIX_MS;
      const onset = this.#parts.sent().momentOf(startMs + prefix);
      this.latency.interrupted(Math.min(now, onset ?? now), now);
    }
    if (this.#parts.local() && (this.#parts.playing() || this.#state.response !== null)) this.#silence();
  }

  #speechStopped(endMs: number): void {
    this.#parts.vad('quiet');
    this.#decided = this.#parts.now();
    const detection = this.#session?.audio.input.turn_detection;
    const over = this.#parts.sent().momentOf(endMs) ?? this.#decided;
    // The end includes the silence that decided it, of which only this kind of detection tells the length.
    const silence = detection?.type === 'server_vad' ? detection.silence_duration_ms : undefined;
    const ended = Math.min(over, this.#decided) - (silence ?? 0);
    this.latency.turnEnded(ended, silence === undefined ? 'decision' : 'vad', this.#decided);
  }

  #silence(): void {
    if (this.#state.response !== null) this.#silenced.add(this.#state.response);
    this.#parts.stop();
  }

  #responseDone(response: ResponseObject): void {
    const stopped = response.timings?.turn?.stopped;
    const corrected = typeof stopped === 'number' ? this.latency.corrected(response.id, stopped) : null;
    if (corrected !== null) this.#tellLatency(corrected);
    if (response.status === 'failed') {
      const error = response.status_details?.error;
      this.#parts.notice({ code: 'response-failed', detail: error?.message ?? error?.code ?? '' });
    }
    void this.#answerCalls();
    if (this.#wanting) this.#want();
    this.#synchronise();
  }

  async #answerCalls(): Promise<void> {
    const calls = this.#calls;
    this.#calls = [];
    if (calls.length === 0) return;
    const session = this.#session;
    const results = await Promise.all(calls.map((call) => carryOut(this.#parts.tools, call)));
    if (this.#session === null || this.#session.id !== session?.id) return;
    for (const result of results) this.#parts.send(result);
    this.#want();
  }

  /** Have an answer, now or as soon as the one under way is done. */
  #want(): void {
    this.#wanting = this.#state.response !== null;
    if (this.#wanting) return;
    this.#parts.send({ type: 'response.create' });
    this.#reduce({ type: 'asked' });
  }

  #failed(error: ErrorObject): void {
    const code = error.code ?? '';
    if (HARMLESS.has(code)) return;
    if (code === 'conversation_already_has_active_response') {
      this.#wanting = true; // the server was quicker with one of its own
    } else if (error.event_id === SETTINGS) {
      this.#parts.notice({ code: 'settings-refused', detail: error.message });
    } else {
      this.#parts.notice({ code: 'server-error', detail: error.message });
    }
  }

  #tellLatency(turn: LatencyTurn): void {
    this.#reduce({ type: 'latency', responseId: turn.responseId, ms: turn.ms });
    this.#parts.changed();
  }

  #reduce(action: Action): void {
    const before = this.#state;
    this.#state = reduce(before, action);
    if (this.#state !== before) this.#parts.changed();
  }
}

function epoch(seconds: number | null | undefined): number | null {
  return seconds == null ? null : seconds * 1000;
}
