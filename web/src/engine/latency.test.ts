import { describe, expect, it } from 'vitest';
import { LatencyTracker, median } from './latency';

describe('from the end of speech to the first audible sample', () => {
  it('is measured once for each turn', () => {
    const tracker = new LatencyTracker();
    tracker.turnEnded(1000, 'vad', 1500);
    tracker.responseBegan('r1');
    expect(tracker.heard(1720, null)).toBeNull();
    expect(tracker.heard(1740, { first: 1730, last: 1740 })).toMatchObject({ responseId: 'r1', ms: 730, basis: 'vad' });
    expect(tracker.heard(1760, { first: 1740, last: 1760 })).toBeNull();
    expect(tracker.report()).toMatchObject({ last: 730, median: 730 });
  });

  it('is not that of sound before the answer', () => {
    const tracker = new LatencyTracker();
    tracker.turnEnded(1000, 'release');
    expect(tracker.heard(1100, { first: 1080, last: 1100 })).toBeNull();
    tracker.responseBegan('r1');
    expect(tracker.heard(1500, { first: 990, last: 1500 })).toBeNull();
  });

  it('is that of the whole turn when it goes on after a pause', () => {
    const tracker = new LatencyTracker();
    tracker.turnEnded(1000, 'vad', 1500);
    tracker.turnResumed();
    tracker.turnEnded(3000, 'vad', 3500);
    tracker.responseBegan('r1');
    expect(tracker.heard(3800, { first: 3700, last: 3800 })?.ms).toBe(700);
  });

  it('is put right by what the server measured', () => {
    const tracker = new LatencyTracker();
    tracker.turnEnded(1500, 'decision', 1500);
    tracker.responseBegan('r1');
    tracker.heard(1800, { first: 1750, last: 1800 });
    expect(tracker.corrected('r1', 480)).toMatchObject({ ms: 730, basis: 'server' });
    expect(tracker.report().median).toBe(730);
    expect(tracker.corrected('r2', 480)).toBeNull();
  });

  it('needs no correction where a key or a text ended the turn', () => {
    const tracker = new LatencyTracker();
    tracker.turnEnded(1500, 'release');
    tracker.responseBegan('r1');
    tracker.heard(1800, { first: 1750, last: 1800 });
    expect(tracker.corrected('r1', 480)).toBeNull();
    expect(tracker.report().turns).toEqual([{ responseId: 'r1', ms: 250, basis: 'release' }]);
  });
});

describe('from an interruption to silence', () => {
  it('ends with the last audible sample', () => {
    const tracker = new LatencyTracker();
    tracker.interrupted(1000, 1200);
    tracker.heard(1220, { first: 1200, last: 1215 });
    tracker.heard(1260, null);
    expect(tracker.report().bargeInStop).toBeNull();
    tracker.heard(1320, null);
    expect(tracker.report().bargeInStop).toBe(215);
  });

  it('is not ended by a pause between words', () => {
    const tracker = new LatencyTracker();
    tracker.interrupted(1000, 1200);
    tracker.heard(1280, { first: 1210, last: 1280 });
    tracker.heard(1340, { first: 1330, last: 1340 });
    tracker.heard(1460, null);
    expect(tracker.report().bargeInStop).toBe(340);
  });
});

it('the median of an even number lies between the two in the middle', () => {
  expect(median([])).toBeNull();
  expect(median([5])).toBe(5);
  expect(median([9, 1, 4])).toBe(4);
  expect(median([9, 1, 4, 6])).toBe(5);
});
