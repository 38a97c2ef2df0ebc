/** Two tracks that are on one clock, as a stereo WAV file. */

import type { Chunk } from './capture';
import { RATE } from './pcm';

/** Minutes of a recording at most; a stereo hour would be 345 MB of memory. */
const LONGEST_S = 30 * 60;

/** Records chunks of the person (left) and the assistant (right) where they lie in time. */
export class Recorder {
  readonly #begin: number;
  readonly #left: Chunk[] = [];
  readonly #right: Chunk[] = [];
  #length = 0;

  /** `begin`: seconds of the context; what is earlier is left out. */
  constructor(begin: number) {
    this.#begin = begin;
  }

  get seconds(): number {
    return this.#length / RATE;
  }

  get full(): boolean {
    return this.seconds >= LONGEST_S;
  }

  add(side: 'left' | 'right', chunk: Chunk): void {
    if (this.full || chunk.time < this.#begin) return;
    (side === 'left' ? this.#left : this.#right).push(chunk);
    this.#length = Math.max(this.#length, this.#place(chunk) + chunk.pcm.length);
  }

  /** 16-bit PCM, 24 kHz, stereo. */
  wav(): Uint8Array<ArrayBuffer> {
    const samples = new Int16Array(2 * this.#length);
    this.#write(this.#left, samples, 0);
    this.#write(this.#right, samples, 1);
    return encodeWav(samples, RATE, 2);
  }

  #place(chunk: Chunk): number {
    return Math.round((chunk.time - this.#begin) * RATE);
  }

  #write(chunks: readonly Chunk[], samples: Int16Array, channel: 0 | 1): void {
    for (const chunk of chunks) {
      const at = 2 * this.#place(chunk) + channel;
      for (let i = 0; i < chunk.pcm.length; i++) samples[at + 2 * i] = chunk.pcm[i] as number;
    }
  }
}

/** `samples`: interleaved, 16 bit. RIFF WAVE, linear PCM. */
export function encodeWav(samples: Int16Array, rate: number, channels: number): Uint8Array<ArrayBuffer> {
  const header = 44;
  const bytes = new Uint8Array(header + samples.byteLength);
  const view = new DataView(bytes.buffer);
  const text = (at: number, value: string) => bytes.set(new TextEncoder().encode(value), at);
  text(0, 'RIFF');
  view.setUint32(4, bytes.length - 8, true);
  text(8, 'WAVEfmt ');
  view.setUint32(16, 16, true);
  view.setUint16(20, 1, true);
  view.setUint16(22, channels, true);
  view.setUint32(24, rate, true);
  view.setUint32(28, rate * channels * 2, true);
  view.setUint16(32, channels * 2, true);
  view.setUint16(34, 16, true);
  text(36, 'data');
  view.setUint32(40, samples.byteLength, true);
  for (let i = 0; i < samples.length; i++) view.setInt16(header + 2 * i, samples[i] as number, true);
  return bytes;
}
