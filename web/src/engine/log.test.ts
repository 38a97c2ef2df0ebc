import { describe, expect, it } from 'vitest';
import { EventLog } from './log';

function filled(): EventLog {
  const log = new EventLog();
  log.add('out', 'session.update', { session: { voice: 'Amy' } }, 1);
  log.add('in', 'response.output_audio.delta', { bytes: 960 }, 2);
  log.add('in', 'response.done', {}, 3);
  return log;
}

describe('the log', () => {
  it.each([
    [{}, [1, 2, 3]],
    [{ direction: 'in' }, [2, 3]],
    [{ withoutDeltas: true }, [1, 3]],
    [{ text: 'amy' }, [1]],
    [{ text: 'RESPONSE', withoutDeltas: true }, [3]],
  ] as const)('filtered by %j', (filter, numbers) => {
    expect(
      filled()
        .select(filter)
        .map(({ number }) => number),
    ).toEqual(numbers);
  });

  it('is one JSON object a line', () => {
    const lines = filled().ndjson({ direction: 'out' }).trimEnd().split('\n');
    expect(lines.map((line) => JSON.parse(line))).toEqual([
      { number: 1, atEpoch: 1, direction: 'out', type: 'session.update', payload: { session: { voice: 'Amy' } } },
    ]);
  });

  it('keeps the newest 5000', () => {
    const log = new EventLog();
    for (let n = 0; n < 12_345; n++) log.add('in', 'x', {}, n);
    const kept = log.select();
    expect(kept).toHaveLength(5000);
    expect([kept[0]?.number, kept.at(-1)?.number]).toEqual([7346, 12_345]);
  });

  it('can be emptied, and counts on', () => {
    const log = filled();
    log.clear();
    expect(log.select()).toEqual([]);
    expect(log.add('in', 'x', {}, 4).number).toBe(4);
  });
});
