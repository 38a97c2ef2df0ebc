import { expect, it } from 'vitest';
import { Ring } from './ring';

/** A small generator, so that a failure can be had again. */
function dice(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
}

it.each([1, 2, 3, 4, 5])('is a queue, however it is used (%i)', (seed) => {
  const roll = dice(seed);
  const ring = new Ring();
  let queue: number[] = [];
  let next = 0;
  let taken = 0;
  for (let step = 0; step < 400; step++) {
    if (roll(20) === 0) {
      const kept = roll(50);
      ring.keep(kept);
      queue = queue.slice(0, kept);
    } else if (roll(2) === 0) {
      const samples = Float32Array.from({ length: roll(3000) }, () => next++);
      ring.put(samples);
      queue.push(...samples);
    } else {
      const out = new Float32Array(roll(2500));
      const count = ring.take(out);
      expect([...out.subarray(0, count)]).toEqual(queue.splice(0, out.length));
      taken += count;
    }
    expect(ring.size).toBe(queue.length);
    expect(ring.read).toBe(taken);
    expect(ring.write - ring.read).toBe(ring.size);
  }
});

it('grows while its samples lie around the end', () => {
  const ring = new Ring();
  ring.put(new Float32Array(30_000));
  ring.take(new Float32Array(29_000));
  const sound = Float32Array.from({ length: 90_000 }, (_, n) => n + 1);
  ring.put(sound);
  ring.take(new Float32Array(1000));
  const out = new Float32Array(90_000);
  expect(ring.take(out)).toBe(90_000);
  expect(out).toEqual(sound);
});
