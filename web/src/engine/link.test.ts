import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { ConnectionState, Problem } from './api';
import { Link } from './link';
import { parseText } from './protocol/parse';
import type { Transport, TransportEvents } from './transports/transport';

const GREETING = parseText('{"type":"session.created","session":{}}');

/** The far end of each connection that was opened. */
let opened: { events: TransportEvents; closed: boolean }[];
let states: ConnectionState[];
let lost: number;
let now: number;

function transport(entry: { closed: boolean }): Transport {
  return {
    kind: 'websocket',
    send: () => undefined,
    sendAudio: () => undefined,
    setMicrophone: async () => undefined,
    quality: async () => ({ network: {}, playback: null }),
    close: () => {
      entry.closed = true;
    },
  };
}

function link(): Link {
  const parts = {
    open: (events: TransportEvents) => {
      const entry = { events, closed: false };
      opened.push(entry);
      return transport(entry);
    },
    occupancy: async () => ({ current: 32, max: 32 }),
    now: () => now,
    random: () => 1,
  };
  return new Link('websocket', parts, {
    changed: (state) => states.push(state),
    live: () => undefined,
    lost: () => {
      lost++;
    },
    event: () => undefined,
    audio: () => undefined,
    remote: () => undefined,
  });
}

function greet(index: number): void {
  if (GREETING !== null) opened[index]?.events.event(GREETING);
}

function end(index: number, code: Problem['code'], retry: boolean): void {
  opened[index]?.events.ended({ problem: { code, detail: '' }, retry });
}

async function pass(ms: number): Promise<void> {
  now += ms;
  await vi.advanceTimersByTimeAsync(ms);
}

function phases(): string[] {
  return states.map(({ phase }) => phase);
}

beforeEach(() => {
  vi.useFakeTimers();
  opened = [];
  states = [];
  lost = 0;
  now = 0;
});

afterEach(() => {
  vi.useRealTimers();
});

it('is live when the server has greeted, not before', async () => {
  const one = link();
  one.open();
  expect(one.transport).toBeNull();
  greet(0);
  await one.settled;
  expect(phases()).toEqual(['connecting', 'live']);
  expect(one.transport).not.toBeNull();
});

it('comes back after a loss, with a pause that can be counted down', async () => {
  const one = link();
  one.open();
  greet(0);
  now = 5000;
  end(0, 'connection-lost', true);
  expect(one.transport).toBeNull();
  expect(states.at(-1)).toMatchObject({ phase: 'reconnecting', attempt: 1, attempts: 8, retryAt: 5500 });
  await pass(499);
  expect(opened).toHaveLength(1);
  await pass(1);
  greet(1);
  expect(phases()).toEqual(['connecting', 'live', 'reconnecting', 'connecting', 'live']);
  expect(lost).toBe(1);
});

it('waits longer each time, and gives up after eight', async () => {
  const one = link();
  one.open();
  greet(0);
  const pauses: number[] = [];
  for (let attempt = 0; states.at(-1)?.phase !== 'error'; attempt++) {
    end(attempt, 'connection-lost', true);
    const state = states.at(-1);
    if (state?.phase === 'reconnecting') pauses.push(state.retryAt - now);
    await pass(8000);
  }
  expect(pauses).toEqual([500, 1000, 2000, 4000, 8000, 8000, 8000, 8000]);
});

it('counts anew after a connection that has held', async () => {
  const one = link();
  one.open();
  greet(0);
  end(0, 'connection-lost', true);
  await pass(500);
  greet(1);
  await pass(10_000);
  end(1, 'connection-lost', true);
  expect(states.at(-1)).toMatchObject({ phase: 'reconnecting', attempt: 1 });
});

it('does not wait for a server that was never there', async () => {
  const one = link();
  one.open();
  end(0, 'server-unreachable', true);
  await one.settled;
  expect(states.at(-1)).toMatchObject({ phase: 'error', problem: { code: 'server-unreachable' } });
});

it('does not come back where that cannot help', () => {
  const one = link();
  one.open();
  greet(0);
  end(0, 'unauthorized', false);
  expect(phases()).toEqual(['connecting', 'live', 'error']);
});

it('waits for a place in a full server and says how full it is', async () => {
  link().open();
  end(0, 'server-full', true);
  await vi.advanceTimersByTimeAsync(0);
  expect(states.at(-1)).toMatchObject({ phase: 'reconnecting', occupancy: { current: 32, max: 32 } });
});

it('can be told not to wait', async () => {
  const one = link();
  one.open();
  greet(0);
  end(0, 'connection-lost', true);
  one.retryNow();
  one.retryNow();
  expect(opened).toHaveLength(2);
  await pass(60_000);
  expect(opened).toHaveLength(2);
});

it('is over when it is closed, whatever the other side says', async () => {
  const one = link();
  one.open();
  greet(0);
  one.close();
  end(0, 'connection-lost', true);
  await pass(60_000);
  await one.settled;
  expect(opened).toMatchObject([{ closed: true }]);
  expect(phases()).toEqual(['connecting', 'live']);
});

it('does not listen to a connection that was replaced', async () => {
  const one = link();
  one.open();
  greet(0);
  end(0, 'connection-lost', true);
  await pass(500);
  greet(1);
  end(0, 'server-failed', false);
  expect(states.at(-1)?.phase).toBe('live');
});
