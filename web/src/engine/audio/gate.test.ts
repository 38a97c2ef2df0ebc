import { describe, expect, it } from 'vitest';
import { Gate, isOpen, SentClock, type Timed } from './gate';

const open = { pushToTalk: false, muted: false, held: false };

function chunk(n: number): Timed {
  return { pcm: new Int16Array(480).fill(n), moment: n * 20 };
}

describe('the gate', () => {
  it('lets an open microphone through', () => {
    expect(new Gate().pass(chunk(1), open)).toEqual([chunk(1)]);
  });

  it('sends silence of a muted one, at the same time', () => {
    expect(new Gate().pass(chunk(7), { ...open, muted: true })).toEqual([{ pcm: new Int16Array(480), moment: 140 }]);
  });

  it('opens a muted one while the key is held', () => {
    expect(isOpen({ ...open, muted: true, held: true })).toBe(true);
  });

  it('sends nothing between presses, and the last 200 ms before one', () => {
    const gate = new Gate();
    const waiting = { ...open, pushToTalk: true };
    for (let n = 1; n <= 30; n++) expect(gate.pass(chunk(n), waiting)).toEqual([]);
    const sent = gate.pass(chunk(31), { ...waiting, held: true });
    expect(sent.map(({ moment }) => moment / 20)).toEqual([21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]);
    expect(gate.pass(chunk(32), { ...waiting, held: true })).toEqual([chunk(32)]);
  });
});

describe('the clock of what was sent', () => {
  it('knows nothing before the first sample', () => {
    expect(new SentClock(24_000).momentOf(0)).toBeNull();
  });

  it('finds the moment at which a sample was captured', () => {
    const clock = new SentClock(24_000);
    for (let n = 0; n < 50; n++) clock.sent(480, 1000 + 20 * n);
    expect(clock.momentOf(730)).toBe(1730);
    expect(clock.momentOf(1100)).toBe(2100);
  });

  it('follows pauses in which nothing was sent', () => {
    const clock = new SentClock(24_000);
    clock.sent(2400, 1000);
    clock.sent(2400, 9000);
    expect(clock.momentOf(50)).toBe(1050);
    expect(clock.momentOf(150)).toBe(9050);
  });
});
