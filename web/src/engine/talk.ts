/** The person's side: mute, push-to-talk, and what of the microphone's sound is sent. */

import { Gate, type GateState, isOpen, SentClock, type Timed } from './audio/gate';
import { RATE } from './audio/pcm';
import type { Dialogue } from './dialogue';
import type { Media } from './media';
import type { ClientEvent } from './protocol/events';
import type { Store } from './store';
import type { Transport } from './transports/transport';

/** A key that was held for less was not meant. */
const SHORTEST_MS = 200;
/** The last words are still on their way when the key comes up, on a track longer than as frames. */
const TAIL_MS = { websocket: 60, webrtc: 250 };

export interface TalkParts {
  readonly store: Store;
  readonly media: Media;
  readonly dialogue: Dialogue;
  /** null: not connected. */
  readonly transport: () => Transport | null;
  send(event: ClientEvent): void;
  now(): number;
}

export class Talk {
  readonly #parts: TalkParts;
  readonly #gate = new Gate();
  #sent = new SentClock(RATE);
  #heldSince = 0;
  /** The key is up, and the last words are still being taken. */
  #tail: ReturnType<typeof setTimeout> | undefined;

  constructor(parts: TalkParts) {
    this.#parts = parts;
  }

  get sent(): SentClock {
    return this.#sent;
  }

  /** A session begins: its time starts at zero. */
  begin(): void {
    this.#sent = new SentClock(RATE);
    this.#gate.forget();
    this.apply();
  }

  end(): void {
    clearTimeout(this.#tail);
    this.#tail = undefined;
    this.#parts.store.patch('microphone', { held: false, vad: 'off' });
    this.apply();
  }

  setMuted(muted: boolean): void {
    this.#parts.store.patch('microphone', { muted });
    this.apply();
  }

  push(down: boolean): void {
    const { microphone } = this.#parts.store.state;
    if (down === microphone.held || (down && (this.#parts.transport() === null || microphone.status !== 'on'))) return;
    this.#parts.store.patch('microphone', { held: down });
    if (this.#state.pushToTalk) {
      if (down) this.#pressed();
      else this.#released();
    }
    this.apply();
  }

  captured(chunk: Timed): void {
    const transport = this.#parts.transport();
    if (transport === null) return;
    if (transport.kind === 'webrtc') {
      this.#sent.sent(chunk.pcm.length, chunk.moment);
      return;
    }
    for (const { pcm, moment } of this.#gate.pass(chunk, this.#state)) {
      this.#sent.sent(pcm.length, moment);
      transport.sendAudio(pcm);
    }
  }

  /** Let the microphone be as open as settings and keys say. */
  apply(): void {
    const state = this.#state;
    const open = isOpen(state);
    const byTrack = this.#parts.transport()?.kind === 'webrtc';
    // A closed gate needs the sound before the key goes down; a track has to be silent itself.
    this.#parts.media.setOpen(open, open || (state.pushToTalk && !byTrack));
    const { microphone } = this.#parts.store.state;
    const watched = !state.pushToTalk && microphone.status === 'on' && this.#parts.transport() !== null;
    const vad = watched ? (microphone.vad === 'off' ? 'quiet' : microphone.vad) : 'off';
    this.#parts.store.patch('microphone', { vad });
  }

  get #state(): GateState {
    const { microphone, settings } = this.#parts.store.state;
    const pushToTalk = settings.turnDetection.type === 'none';
    return { pushToTalk, muted: microphone.muted, held: microphone.held || this.#tail !== undefined };
  }

  #pressed(): void {
    clearTimeout(this.#tail);
    this.#tail = undefined;
    this.#heldSince = this.#parts.now();
    this.#parts.dialogue.interrupt();
    this.#parts.send({ type: 'input_audio_buffer.clear' });
  }

  #released(): void {
    const released = this.#parts.now();
    const transport = this.#parts.transport();
    if (transport === null) return;
    if (released - this.#heldSince < SHORTEST_MS) {
      this.#parts.send({ type: 'input_audio_buffer.clear' });
      this.#parts.store.emit('notice', { code: 'too-short', detail: '' });
      return;
    }
    this.#tail = setTimeout(() => {
      this.#tail = undefined;
      this.apply();
      this.#parts.send({ type: 'input_audio_buffer.commit' });
      this.#parts.dialogue.ask(released);
    }, TAIL_MS[transport.kind]);
  }
}
