/** What is played and what waits to be. No Web Audio here: the worklet is a rim around it. */

import { durationMs, fromPcm16, RATE } from './pcm';
import { Resampler } from './resampler';
import { Ring } from './ring';

/** How much of an item was rendered, and how much there was. */
export interface Cut {
  readonly item: string;
  readonly playedMs: number;
  readonly totalMs: number;
}

export interface PlaybackStatus {
  readonly playing: boolean;
  readonly bufferedMs: number;
  readonly underruns: number;
  /** The item that is being played, or was last. */
  readonly current: { readonly item: string; readonly playedMs: number } | null;
  /** Items that have been played to their end since the last status. */
  readonly drained: readonly string[];
}

export interface PlaybackOptions {
  /** Sound that must be there before playing begins, or goes on after a gap. */
  readonly startMs: number;
  /** Length of the ramps at edges that the sound itself does not have. */
  readonly fadeMs: number;
}

export const PLAYBACK: PlaybackOptions = { startMs: 80, fadeMs: 10 };

interface Segment {
  readonly item: string;
  /** Stream positions: samples since the beginning of time at the output rate. */
  readonly begin: number;
  end: number;
  complete: boolean;
}

/**
 * A jitter buffer for items of sound that come faster than real time, or late.
 *
 * Playing begins once `startMs` are there, or all of an item is. A gap inside an item is an underrun: it is faded out,
 * counted, and playing begins anew. `clear` fades out what plays and forgets the rest.
 */
export class Playback {
  readonly #rate: number;
  readonly #start: number;
  readonly #fade: number;
  readonly #ring = new Ring();
  #segments: Segment[] = [];
  #resampler: Resampler;
  #drained: string[] = [];
  #current: { item: string; playedMs: number } | null = null;
  #playing = false;
  #rampAt = 0;
  #underruns = 0;
  #dry: Segment | null = null;

  /** `rate`: Hz, of the samples that are rendered. */
  constructor(rate: number, options: PlaybackOptions = PLAYBACK) {
    this.#rate = rate;
    this.#start = Math.round((rate * options.startMs) / 1000);
    this.#fade = Math.max(1, Math.round((rate * options.fadeMs) / 1000));
    this.#resampler = new Resampler(RATE, rate);
  }

  /** More of `item`, at 24 kHz. Items are played in the order in which they begin. */
  push(item: string, pcm: Int16Array): void {
    const segment = this.#open(item);
    // Only now is it known that the silence was a gap and not the item's end.
    if (segment === this.#dry) this.#underruns++;
    this.#dry = null;
    this.#append(segment, this.#resampler.push(fromPcm16(pcm)));
  }

  /** There is no more of `item`. */
  end(item: string): void {
    const segment = this.#segments.at(-1);
    if (segment?.item === item) this.#complete(segment);
  }

  /** Stop: what is rendered now is faded out. Tells of each item that was not played to its end how much was. */
  clear(): Cut[] {
    const played = this.#ring.read;
    const cuts = this.#segments.map((segment) => ({
      item: segment.item,
      playedMs: durationMs(Math.max(0, played - segment.begin), this.#rate),
      totalMs: durationMs(segment.end - segment.begin, this.#rate),
    }));
    this.#ring.keep(this.#playing ? this.#fade : 0);
    this.#ring.ramp(1, 0);
    this.#segments = [];
    this.#current = null;
    this.#dry = null;
    this.#resampler = new Resampler(RATE, this.#rate);
    return cuts;
  }

  /** Fill `output` with what is due, silence where nothing is. */
  render(output: Float32Array): void {
    output.fill(0);
    if (!this.#playing) {
      if (!this.#ready()) return;
      this.#playing = true;
      this.#rampAt = this.#ring.read;
    }
    const at = this.#ring.read;
    const taken = this.#ring.take(output);
    rampUp(output.subarray(0, taken), at - this.#rampAt, this.#fade);
    if (taken < output.length) this.#ranDry(output.subarray(0, taken));
    this.#settle();
  }

  status(): PlaybackStatus {
    const drained = this.#drained;
    this.#drained = [];
    return {
      playing: this.#playing,
      bufferedMs: durationMs(this.#ring.size, this.#rate),
      underruns: this.#underruns,
      current: this.#current,
      drained,
    };
  }

  #open(item: string): Segment {
    const last = this.#segments.at(-1);
    if (last?.item === item) return last;
    if (last !== undefined && !last.complete) this.#complete(last);
    const segment = { item, begin: this.#ring.write, end: this.#ring.write, complete: false };
    this.#segments.push(segment);
    return segment;
  }

  #append(segment: Segment, samples: Float32Array): void {
    this.#ring.put(samples);
    segment.end = this.#ring.write;
  }

  #complete(segment: Segment): void {
    this.#append(segment, this.#resampler.flush());
    segment.complete = true;
  }

  #ready(): boolean {
    const size = this.#ring.size;
    return size > 0 && (size >= this.#start || (this.#segments.at(-1)?.complete ?? true));
  }

  #ranDry(rest: Float32Array): void {
    this.#playing = false;
    const last = this.#segments.at(-1);
    if (last === undefined || last.complete) return;
    this.#dry = last;
    for (let i = 0; i < rest.length; i++) rest[i] = (rest[i] as number) * (1 - (i + 1) / rest.length);
  }

  /** Note how far playing has come. */
  #settle(): void {
    const played = this.#ring.read;
    for (let first = this.#segments[0]; first !== undefined && first.begin < played; first = this.#segments[0]) {
      const until = Math.min(played, first.end);
      this.#current = { item: first.item, playedMs: durationMs(until - first.begin, this.#rate) };
      if (!first.complete || played < first.end) return;
      this.#drained.push(first.item);
      this.#segments.shift();
    }
  }
}

/** Scale by a ramp from 0 to 1 that began `done` samples ago. */
function rampUp(samples: Float32Array, done: number, length: number): void {
  for (let i = 0; i < samples.length && done + i < length; i++) {
    samples[i] = (samples[i] as number) * ((done + i + 1) / length);
  }
}
