import { describe, expect, it } from 'vitest';
import { inboundQuality, lossSince } from './stats';

it('finds the way and the jitter buffer in a report', () => {
  const report = new Map(
    [
      { type: 'candidate-pair', nominated: false, currentRoundTripTime: 9 },
      { type: 'candidate-pair', nominated: true, currentRoundTripTime: 0.042, bytesSent: 10, bytesReceived: 20 },
      { type: 'inbound-rtp', kind: 'video', jitter: 9 },
      {
        type: 'inbound-rtp',
        kind: 'audio',
        jitter: 0.003,
        jitterBufferDelay: 960,
        jitterBufferEmittedCount: 16_000,
        concealmentEvents: 2,
        packetsReceived: 99,
        packetsLost: 1,
      },
    ].map((stat, n) => [n, stat]),
  );
  expect(inboundQuality(report)).toEqual({
    network: { rttMs: 42, jitterMs: 3, bytesSent: 10, bytesReceived: 20 },
    playback: { bufferedMs: 60, underruns: 2 },
    packets: { received: 99, lost: 1 },
  });
});

it('makes do with an empty report', () => {
  expect(inboundQuality(new Map())).toEqual({
    network: { rttMs: null, jitterMs: null, bytesSent: 0, bytesReceived: 0 },
    playback: { bufferedMs: 0, underruns: 0 },
    packets: { received: 0, lost: 0 },
  });
});

describe('the share that was lost', () => {
  it('counts from the look before', () => {
    expect(lossSince(null, { received: 90, lost: 10 })).toBeCloseTo(0.1);
    expect(lossSince({ received: 90, lost: 10 }, { received: 190, lost: 10 })).toBe(0);
  });

  it('is unknown where nothing was to come, and never negative', () => {
    expect(lossSince({ received: 90, lost: 10 }, { received: 90, lost: 10 })).toBeNull();
    expect(lossSince({ received: 90, lost: 10 }, { received: 100, lost: 8 })).toBe(0);
  });
});
