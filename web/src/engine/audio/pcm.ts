/** Sound as the protocol carries it: 16-bit little-endian linear PCM, mono. */

/** Hz: the only rate of the contract's `audio/pcm`. */
export const RATE = 24000;

export function toPcm16(samples: Float32Array): Int16Array<ArrayBuffer> {
  const pcm = new Int16Array(samples.length);
  for (let i = 0; i < samples.length; i++) {
    const scaled = Math.round((samples[i] as number) * 32768);
    pcm[i] = Math.max(-32768, Math.min(32767, scaled));
  }
  return pcm;
}

export function fromPcm16(pcm: Int16Array): Float32Array<ArrayBuffer> {
  const samples = new Float32Array(pcm.length);
  for (let i = 0; i < pcm.length; i++) samples[i] = (pcm[i] as number) / 32768;
  return samples;
}

/** An odd last byte, which is half a sample, is left out. */
export function bytesToPcm16(bytes: Uint8Array): Int16Array<ArrayBuffer> {
  // A copy, because the bytes may begin at any place of their buffer and samples may not.
  return new Int16Array(bytes.slice(0, bytes.length - (bytes.length % 2)).buffer);
}

export function durationMs(samples: number, rate: number): number {
  return (samples * 1000) / rate;
}

/** Root mean square, 0 to 1. */
export function rms(pcm: Int16Array): number {
  if (pcm.length === 0) return 0;
  let sum = 0;
  for (const sample of pcm) sum += sample * sample;
  return Math.sqrt(sum / pcm.length) / 32768;
}

/** Where the sound is first and last louder than `threshold` (0 to 1): indices of samples; null: nowhere. */
export function loudSpan(pcm: Int16Array, threshold: number): { first: number; last: number } | null {
  const limit = threshold * 32768;
  const first = pcm.findIndex((sample) => Math.abs(sample) > limit);
  return first < 0 ? null : { first, last: pcm.findLastIndex((sample) => Math.abs(sample) > limit) };
}
