/** The assistant's voice, wherever it is played: by this page, or by the browser from a remote track. */

import type { PlaybackReport } from '../api';
import type { PlaybackCommand, PlaybackReport as WorkletReport } from './messages';
import type { Cut, PlaybackStatus } from './playback';
import type { Sound } from './sound';

export interface OutputEvents {
  changed(report: Partial<PlaybackReport>): void;
  played(itemId: string, ms: number): void;
  drained(itemId: string): void;
  /** The item was stopped after so much of it. */
  cut(itemId: string, ms: number): void;
}

/** Plays what is pushed, through the playback worklet. */
export class LocalOutput {
  readonly node: AudioWorkletNode;
  readonly #sound: Sound;
  readonly #events: OutputEvents;

  constructor(sound: Sound, events: OutputEvents) {
    this.#sound = sound;
    this.#events = events;
    this.node = sound.player();
    this.node.port.onmessage = (message: MessageEvent<WorkletReport>) => this.#receive(message.data);
    this.node.connect(sound.context.destination);
  }

  push(itemId: string, pcm: Int16Array<ArrayBuffer>): void {
    this.#command({ type: 'push', item: itemId, pcm }, [pcm.buffer]);
  }

  end(itemId: string): void {
    this.#command({ type: 'end', item: itemId });
  }

  /** Fades out; `cut` tells of each item that was not heard to its end. */
  clear(): void {
    this.#command({ type: 'clear' });
  }

  close(): void {
    this.node.disconnect();
    this.node.port.close();
  }

  #command(command: PlaybackCommand, transferred: Transferable[] = []): void {
    this.node.port.postMessage(command, transferred);
  }

  #receive(report: WorkletReport): void {
    if (report.type === 'status') this.#status(report.status);
    else for (const cut of report.cuts) this.#cut(cut);
  }

  #status({ playing, bufferedMs, underruns, current, drained }: PlaybackStatus): void {
    this.#events.changed({ playing, bufferedMs, underruns });
    if (current !== null) this.#events.played(current.item, this.#heard(current.playedMs));
    for (const item of drained) this.#events.drained(item);
  }

  #cut(cut: Cut): void {
    this.#events.cut(cut.item, this.#heard(cut.playedMs));
  }

  /** What has been rendered and not yet left the loudspeaker was not heard. */
  #heard(renderedMs: number): number {
    return Math.max(0, renderedMs - this.#sound.latencyMs);
  }
}

const TICK_MS = 100;

interface Remote {
  readonly responseId: string;
  readonly began: number;
}

/** Follows what the server plays out on a track, by what it says of its output buffer. */
export class RemoteOutput {
  readonly #events: OutputEvents;
  readonly #now: () => number;
  /** The item that a response's sound belongs to. */
  readonly #items = new Map<string, string>();
  #playing: Remote | null = null;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(events: OutputEvents, now: () => number) {
    this.#events = events;
    this.#now = now;
  }

  /** A message of the response has begun; its sound, if any, is the last one's. */
  began(responseId: string, itemId: string): void {
    this.#items.set(responseId, itemId);
  }

  started(responseId: string): void {
    this.#playing = { responseId, began: this.#now() };
    this.#events.changed({ playing: true });
    clearInterval(this.#timer);
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  stopped(responseId: string): void {
    const itemId = this.#finish(responseId);
    if (itemId !== null) this.#events.drained(itemId);
  }

  cleared(responseId: string): void {
    const ms = this.#playedMs();
    const itemId = this.#finish(responseId);
    if (itemId !== null) this.#events.cut(itemId, ms);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#playing = null;
    this.#items.clear();
  }

  #playedMs(): number {
    return this.#playing === null ? 0 : this.#now() - this.#playing.began;
  }

  #tick(): void {
    const itemId = this.#playing === null ? undefined : this.#items.get(this.#playing.responseId);
    if (itemId !== undefined) this.#events.played(itemId, this.#playedMs());
  }

  #finish(responseId: string): string | null {
    if (this.#playing?.responseId !== responseId) return null;
    clearInterval(this.#timer);
    this.#playing = null;
    this.#events.changed({ playing: false });
    return this.#items.get(responseId) ?? null;
  }
}
