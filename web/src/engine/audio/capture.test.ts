import { expect, it } from 'vitest';
import { Capture } from './capture';

it('cuts blocks of 128 into chunks of 20 ms that know when they were captured', () => {
  const capture = new Capture(48_000, 20);
  const chunks = [];
  for (let block = 0; block < 375; block++) {
    chunks.push(...capture.push(new Float32Array(128).fill(0.5), 7 + (block * 128) / 48_000));
  }
  // One second, less what the filter still waits for.
  expect(chunks).toHaveLength(49);
  expect(chunks.every(({ pcm }) => pcm.length === 480)).toBe(true);
  chunks.forEach(({ time }, index) => {
    expect(time).toBeCloseTo(7 + index * 0.02, 9);
  });
  expect(chunks[10]?.pcm.every((sample) => Math.abs(sample - 16384) < 5)).toBe(true);
});

it('clips what is louder than full scale instead of wrapping it around', () => {
  const capture = new Capture(24_000, 20);
  const [chunk] = capture.push(
    Float32Array.from({ length: 480 }, (_, n) => (n % 2 ? 1.5 : -1.5)),
    0,
  );
  expect([...new Set(chunk?.pcm)]).toEqual([-32768, 32767]);
});
