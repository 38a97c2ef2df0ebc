/** From a processor's blocks to chunks of PCM at 24 kHz. No Web Audio here: the worklet is a rim around it. */

import { RATE, toPcm16 } from './pcm';
import { Resampler } from './resampler';

export interface Chunk {
  /** 24 kHz mono. */
  readonly pcm: Int16Array<ArrayBuffer>;
  /** When its first sample was captured: seconds of the audio context. */
  readonly time: number;
}

/** Cuts a stream into chunks of one length. Each keeps the time at which it was captured. */
export class Capture {
  readonly #resampler: Resampler;
  readonly #size: number;
  readonly #held: Float32Array;
  #filled = 0;
  #made = 0;
  #begin: number | null = null;

  constructor(inputRate: number, chunkMs: number) {
    this.#resampler = new Resampler(inputRate, RATE);
    this.#size = Math.round((RATE * chunkMs) / 1000);
    this.#held = new Float32Array(this.#size);
  }

  /** `time`: seconds of the context at the block's first sample; blocks follow each other without a gap. */
  push(block: Float32Array, time: number): Chunk[] {
    this.#begin ??= time;
    const samples = this.#resampler.push(block);
    const chunks: Chunk[] = [];
    for (let at = 0; at < samples.length; ) {
      const taken = Math.min(samples.length - at, this.#size - this.#filled);
      this.#held.set(samples.subarray(at, at + taken), this.#filled);
      this.#filled += taken;
      at += taken;
      if (this.#filled === this.#size) chunks.push(this.#chunk(this.#begin));
    }
    return chunks;
  }

  #chunk(begin: number): Chunk {
    const chunk = { pcm: toPcm16(this.#held), time: begin + this.#made / RATE };
    this.#made += this.#size;
    this.#filled = 0;
    return chunk;
  }
}
