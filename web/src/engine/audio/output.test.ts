import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { RemoteOutput } from './output';

let now = 0;
let told: unknown[] = [];
let output: RemoteOutput;

beforeEach(() => {
  vi.useFakeTimers();
  now = 0;
  told = [];
  const tell =
    (kind: string) =>
    (...args: unknown[]) =>
      told.push([kind, ...args]);
  const events = { changed: tell('changed'), played: tell('played'), drained: tell('drained'), cut: tell('cut') };
  output = new RemoteOutput(events, () => now);
  output.began('r1', 'a1');
});

afterEach(() => {
  output.close();
  vi.useRealTimers();
});

function pass(ms: number): void {
  now += ms;
  vi.advanceTimersByTime(ms);
}

it('follows an answer that the server plays to its end', () => {
  output.started('r1');
  pass(100);
  output.stopped('r1');
  pass(500);
  expect(told).toEqual([
    ['changed', { playing: true }],
    ['played', 'a1', 100],
    ['changed', { playing: false }],
    ['drained', 'a1'],
  ]);
});

it('knows how much of one was heard when the server clears it', () => {
  output.started('r1');
  now = 1234;
  output.cleared('r1');
  expect(told.slice(1)).toEqual([
    ['changed', { playing: false }],
    ['cut', 'a1', 1234],
  ]);
});

it('is not confused by the end of another answer', () => {
  output.started('r1');
  output.stopped('r0');
  output.cleared('r0');
  expect(told).toEqual([['changed', { playing: true }]]);
});

it('says nothing of a response without a message', () => {
  output.started('r9');
  pass(100);
  output.stopped('r9');
  expect(told).toEqual([
    ['changed', { playing: true }],
    ['changed', { playing: false }],
  ]);
});
