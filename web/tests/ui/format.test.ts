import { expect, it } from 'vitest';
import { bytes, clock, milliseconds, percent, seconds, stamp, timeOfDay } from '../../src/ui/format';

it.each<[string, string]>([
  [seconds(742), '0.74 s'],
  [seconds(12_340), '12.3 s'],
  [seconds(null), '–'],
  [milliseconds(4.4), '4 ms'],
  [clock(0), '0:00'],
  [clock(-5), '0:00'],
  [clock(61_000), '1:01'],
  [clock(3_725_000), '1:02:05'],
  [percent(0), '0 %'],
  [percent(0.0134), '1.3 %'],
  [bytes(812), '812 B'],
  [bytes(3_140), '3.1 KB'],
  [bytes(2_410_000), '2.4 MB'],
  [timeOfDay(new Date(2026, 2, 1, 14, 3, 27, 18).getTime()), '14:03:27.018'],
  [stamp(new Date(2026, 2, 1, 14, 3, 27).getTime()), '2026-03-01-140327'],
])('%s reads %s', (shown, expected) => {
  expect(shown).toBe(expected);
});
