import { expect, it } from 'vitest';
import type { AssistantEntry } from './conversation/entries';
import { EMPTY } from './conversation/reduce';
import { activityOf } from './state';

const live = { phase: 'live', transport: 'websocket', since: 0 } as const;
const answer: AssistantEntry = {
  kind: 'assistant',
  id: 'a1',
  responseId: 'r1',
  spoken: true,
  text: 'Yes.',
  audioMs: 900,
  audioComplete: false,
  playedMs: 300,
  heardLength: 0,
  written: false,
  silent: false,
  interrupted: false,
  failed: false,
  latencyMs: null,
  at: 0,
};

it('shows what the agent does', () => {
  expect(activityOf({ phase: 'idle' }, EMPTY, false)).toBe('idle');
  expect(activityOf({ phase: 'closed' }, EMPTY, true)).toBe('idle');
  const problem = { code: 'server-gone', detail: '' } as const;
  expect(activityOf({ phase: 'error', problem, occupancy: null }, EMPTY, false)).toBe('error');
  expect(activityOf(live, EMPTY, false)).toBe('listening');
  expect(activityOf(live, { ...EMPTY, awaiting: true }, false)).toBe('thinking');
  expect(activityOf(live, { ...EMPTY, awaiting: true }, true)).toBe('speaking');
});

it('goes on speaking through a gap in the sound', () => {
  expect(activityOf(live, { ...EMPTY, awaiting: true, entries: [answer] }, false)).toBe('speaking');
  expect(activityOf(live, { ...EMPTY, entries: [{ ...answer, silent: true }] }, false)).toBe('listening');
  expect(activityOf(live, { ...EMPTY, awaiting: true, entries: [{ ...answer, playedMs: 0 }] }, false)).toBe('thinking');
});
