/** What a peer connection's statistics (W3C webrtc-stats) say of the way and of the jitter buffer. */

import type { Quality } from './transport';

export interface ReceivedPackets {
  readonly received: number;
  readonly lost: number;
}

type Stat = Readonly<Record<string, unknown>>;

function numberIn(stat: Stat | undefined, name: string): number | null {
  const value = stat?.[name];
  return typeof value === 'number' ? value : null;
}

function milliseconds(seconds: number | null): number | null {
  return seconds === null ? null : seconds * 1000;
}

function bufferedMs(inbound: Stat | undefined): number {
  const emitted = numberIn(inbound, 'jitterBufferEmittedCount') ?? 0;
  // A sum over all samples that were played: its mean is how long each waited, in seconds.
  return emitted > 0 ? ((numberIn(inbound, 'jitterBufferDelay') ?? 0) / emitted) * 1000 : 0;
}

/** `report`: an `RTCStatsReport`, or any map of its entries. */
export function inboundQuality(report: {
  forEach(visit: (stat: Stat) => void): void;
}): Quality & { readonly packets: ReceivedPackets } {
  const stats: Stat[] = [];
  report.forEach((stat) => {
    stats.push(stat);
  });
  const inbound = stats.find((stat) => stat['type'] === 'inbound-rtp' && stat['kind'] === 'audio');
  const pair = stats.find((stat) => stat['type'] === 'candidate-pair' && stat['nominated'] === true);
  return {
    network: {
      rttMs: milliseconds(numberIn(pair, 'currentRoundTripTime')),
      jitterMs: milliseconds(numberIn(inbound, 'jitter')),
      bytesSent: numberIn(pair, 'bytesSent') ?? 0,
      bytesReceived: numberIn(pair, 'bytesReceived') ?? 0,
    },
    playback: { bufferedMs: bufferedMs(inbound), underruns: numberIn(inbound, 'concealmentEvents') ?? 0 },
    packets: { received: numberIn(inbound, 'packetsReceived') ?? 0, lost: numberIn(inbound, 'packetsLost') ?? 0 },
  };
}

/** The share that was lost between two looks, 0 to 1; null where nothing was to come. */
export function lossSince(before: ReceivedPackets | null, now: ReceivedPackets): number | null {
  const received = now.received - (before?.received ?? 0);
  const lost = Math.max(0, now.lost - (before?.lost ?? 0));
  return received + lost > 0 ? lost / (received + lost) : null;
}
