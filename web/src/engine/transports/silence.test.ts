import { expect, it } from 'vitest';
import { LOOK_MS, SilenceWatch } from './silence';

/** When each of these counts, looked at in turn, was too long the same: milliseconds after the first look. */
function alarms(counts: readonly number[], pause = LOOK_MS): number[] {
  const watch = new SilenceWatch();
  return counts.map((count, look) => (watch.look(count, look * pause) ? look * pause : -1)).filter((at) => at >= 0);
}

it('takes 3.5 s of nothing for a loss, which is known within 5 s of the last packet', () => {
  expect(alarms([1, ...Array<number>(9).fill(2)])[0]).toBe(4000);
});

it('never doubts a server that says something, however little', () => {
  expect(alarms(Array.from({ length: 100 }, (_, look) => Math.floor(look / 6)))).toEqual([]);
});

it('does not take the time for a silence in which nobody looked', () => {
  expect(alarms([1, 1, 1, 1], 60_000)).toEqual([]);
  expect(alarms([1, 1, 1, 2, 2, 2, 2], 60_000)).toEqual([]);
});

it('looks often enough where a hidden page may look once a second only', () => {
  expect(alarms([1, 1, 1, 1, 1, 1], 1000)).toEqual([4000, 5000]);
});

it('takes another count for a sign of life, also a smaller one: the way may have changed', () => {
  expect(alarms([900, 900, 900, 900, 900, 900, 10, 10, 10])).toEqual([]);
});
