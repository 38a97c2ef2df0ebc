import { describe, expect, it } from 'vitest';
import { encodeWav, Recorder } from './wav';

function tracks(wav: Uint8Array): { left: number[]; right: number[] } {
  const samples = new Int16Array(wav.slice(44).buffer);
  return { left: [...samples.filter((_, n) => n % 2 === 0)], right: [...samples.filter((_, n) => n % 2 === 1)] };
}

describe('a recording', () => {
  it('has each side where it lay in time', () => {
    const recorder = new Recorder(10);
    recorder.add('left', { time: 10, pcm: Int16Array.of(1, 2) });
    recorder.add('right', { time: 10 + 3 / 24_000, pcm: Int16Array.of(7, 8) });
    expect(tracks(recorder.wav())).toEqual({ left: [1, 2, 0, 0, 0], right: [0, 0, 0, 7, 8] });
    expect(recorder.seconds).toBe(5 / 24_000);
  });

  it('leaves out what was before it', () => {
    const recorder = new Recorder(10);
    recorder.add('left', { time: 9.99, pcm: Int16Array.of(1) });
    expect(recorder.seconds).toBe(0);
  });

  it('ends after half an hour', () => {
    const recorder = new Recorder(0);
    recorder.add('left', { time: 1800, pcm: Int16Array.of(1) });
    recorder.add('left', { time: 1801, pcm: Int16Array.of(1) });
    expect(recorder.full).toBe(true);
    expect(recorder.seconds).toBeCloseTo(1800, 3);
  });
});

it('writes the header of a 16-bit WAV file', () => {
  const wav = encodeWav(Int16Array.of(1, -1), 24_000, 2);
  const view = new DataView(wav.buffer);
  const text = (at: number) => new TextDecoder().decode(wav.subarray(at, at + 4));
  expect([text(0), text(8), text(12), text(36)]).toEqual(['RIFF', 'WAVE', 'fmt ', 'data']);
  expect(view.getUint32(4, true)).toBe(wav.length - 8);
  expect([20, 22, 32, 34].map((at) => view.getUint16(at, true))).toEqual([1, 2, 4, 16]);
  expect([24, 28, 40].map((at) => view.getUint32(at, true))).toEqual([24_000, 96_000, 4]);
});
