import { describe, expect, it } from 'vitest';
import { RATE } from './pcm';
import { Playback } from './playback';

const BLOCK = 120; // 5 ms
const LOUD = 16384;

function pcm(ms: number, value = LOUD): Int16Array {
  return new Int16Array((RATE * ms) / 1000).fill(value);
}

function render(playback: Playback, ms: number): Float32Array {
  const out = new Float32Array((RATE * ms) / 1000);
  for (let at = 0; at < out.length; at += BLOCK) playback.render(out.subarray(at, at + BLOCK));
  return out;
}

/** How loud the sound is at its loudest edge: the largest step from one sample to the next. */
function steepest(samples: Float32Array): number {
  return samples.reduce((most, sample, n) => Math.max(most, Math.abs(sample - (samples[n - 1] ?? sample))), 0);
}

describe('starting', () => {
  it('waits until 80 ms are there', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(75));
    expect(render(playback, 50).every((sample) => sample === 0)).toBe(true);
    playback.push('a', pcm(5));
    expect(render(playback, 50).at(-1)).toBeCloseTo(0.5);
  });

  it('does not wait for more of an item that is complete', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(20));
    playback.end('a');
    expect(render(playback, 20).at(-1)).toBeCloseTo(0.5);
  });

  it('plays every sample once, in order', () => {
    const playback = new Playback(RATE, { startMs: 80, fadeMs: 0 });
    const sound = Int16Array.from({ length: 9600 }, (_, n) => n);
    for (let at = 0; at < sound.length; at += 700) playback.push('a', sound.subarray(at, at + 700));
    playback.end('a');
    const played = render(playback, 400).map((sample) => Math.round(sample * 32768));
    expect([...played.subarray(1)]).toEqual([...sound.subarray(1)]);
  });
});

describe('position', () => {
  it('counts the milliseconds of the item that plays', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(300));
    render(playback, 120);
    expect(playback.status()).toMatchObject({
      playing: true,
      bufferedMs: 180,
      current: { item: 'a', playedMs: 120 },
      drained: [],
    });
  });

  it('tells once of each item that was played to its end', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(100));
    playback.end('a');
    playback.push('b', pcm(100));
    render(playback, 150);
    expect(playback.status()).toMatchObject({ current: { item: 'b', playedMs: 50 }, drained: ['a'] });
    playback.end('b');
    render(playback, 60);
    expect(playback.status()).toMatchObject({ playing: false, drained: ['b'] });
    expect(playback.status().drained).toEqual([]);
  });

  it('counts the item in its own time at another rate', () => {
    const playback = new Playback(48_000);
    playback.push('a', pcm(500));
    playback.end('a');
    const out = new Float32Array(48 * 200);
    playback.render(out);
    expect(playback.status().current?.playedMs).toBeCloseTo(200, 6);
    expect(playback.clear()).toEqual([{ item: 'a', playedMs: 200, totalMs: 500 }]);
  });
});

describe('a gap', () => {
  it('is counted when the item goes on after it, faded, and bridged by a new start', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(102));
    const before = render(playback, 150);
    expect(playback.status()).toMatchObject({ playing: false, underruns: 0 });
    playback.push('a', pcm(40));
    expect(playback.status().underruns).toBe(1);
    expect(render(playback, 20).every((sample) => sample === 0)).toBe(true);
    playback.push('a', pcm(60));
    const after = render(playback, 50);
    expect(after.at(-1)).toBeCloseTo(0.5);
    expect(steepest(before)).toBeLessThan(0.02);
    expect(steepest(after)).toBeLessThan(0.02);
  });

  it('between two items is none', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(100));
    playback.end('a');
    render(playback, 200);
    playback.push('b', pcm(100));
    render(playback, 100);
    expect(playback.status().underruns).toBe(0);
  });

  it('is none when all that was still to come is the word that it is over', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(100));
    render(playback, 200);
    playback.end('a');
    render(playback, 10);
    expect(playback.status().underruns).toBe(0);
  });
});

describe('clearing', () => {
  it('is silence after a fade of 10 ms without a click', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(1000));
    const before = render(playback, 100);
    playback.clear();
    const after = render(playback, 50);
    expect(after[0]).toBeGreaterThan(0.45);
    expect(after.subarray(RATE / 100).every((sample) => sample === 0)).toBe(true);
    expect(steepest(Float32Array.from([...before.subarray(-1), ...after]))).toBeLessThan(0.51 / (RATE / 100) + 0.001);
    expect(playback.status()).toMatchObject({ playing: false, bufferedMs: 0, current: null });
  });

  it('tells how much of each unfinished item was played', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(100));
    playback.end('a');
    playback.push('b', pcm(400));
    playback.end('b');
    playback.push('c', pcm(50));
    render(playback, 250);
    expect(playback.clear()).toEqual([
      { item: 'b', playedMs: 150, totalMs: 400 },
      { item: 'c', playedMs: 0, totalMs: 50 },
    ]);
    expect(playback.clear()).toEqual([]);
  });

  it('makes no sound of what had not begun', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(50));
    playback.clear();
    expect(render(playback, 50).every((sample) => sample === 0)).toBe(true);
  });

  it('lets the next item play from its beginning', () => {
    const playback = new Playback(RATE);
    playback.push('a', pcm(500));
    render(playback, 100);
    playback.clear();
    playback.push('b', pcm(200, 8192));
    playback.end('b');
    render(playback, 100);
    expect(playback.status().current).toEqual({ item: 'b', playedMs: 90 });
  });
});
