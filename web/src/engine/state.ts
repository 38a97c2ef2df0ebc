/** The state before anything has happened, and what follows from its parts. */

import type { Activity, AgentState, ConnectionState, Settings } from './api';
import type { Conversation } from './conversation/reduce';

export function initialState(settings: Settings): AgentState {
  return {
    connection: { phase: 'idle' },
    activity: 'idle',
    microphone: { status: 'off', muted: false, held: false, vad: 'off', problem: null },
    turns: [],
    latency: { turns: [], last: null, median: null, bargeInStop: null },
    network: { rttMs: null, jitterMs: null, lossRate: null, bytesSent: 0, bytesReceived: 0 },
    playback: { playing: false, bufferedMs: 0, underruns: 0 },
    session: { id: null, model: null, expiresAtEpoch: null, voices: [], voice: null, pending: [] },
    settings,
    devices: { microphones: [], speakers: [], microphone: null, speaker: null, canChooseSpeaker: false },
    recording: { active: false, seconds: 0 },
  };
}

/** Whether an answer has begun to be heard and is not over: a gap in its sound does not end it. */
function isHeard({ entries }: Conversation): boolean {
  return entries.some((entry) => entry.kind === 'assistant' && entry.playedMs > 0 && !entry.silent);
}

export function activityOf(connection: ConnectionState, conversation: Conversation, playing: boolean): Activity {
  if (connection.phase === 'error') return 'error';
  if (connection.phase !== 'live') return 'idle';
  if (playing || isHeard(conversation)) return 'speaking';
  return conversation.awaiting ? 'thinking' : 'listening';
}
