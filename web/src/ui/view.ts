/** What the page makes of the agent's state. Pure. */

import type { AgentState, ConnectionState } from '../engine/api';
import type { Mood } from './orb/moods';

/** Whether the page welcomes somebody, or shows a conversation, under way or over. */
export function screenOf(state: AgentState): 'welcome' | 'conversation' {
  const { phase } = state.connection;
  const begun = phase === 'live' || phase === 'reconnecting' || state.turns.length > 0;
  return begun ? 'conversation' : 'welcome';
}

/** Whether a connection is being made for the first time. */
export function isStarting({ phase }: ConnectionState): boolean {
  return phase === 'requesting-microphone' || phase === 'connecting';
}

/** Whether somebody who speaks now is heard. */
export function isHeard({ microphone, settings }: AgentState): boolean {
  if (microphone.status !== 'on') return false;
  return microphone.held || (!microphone.muted && settings.turnDetection.type !== 'none');
}

export function moodOf(state: AgentState): Mood {
  const { connection, activity } = state;
  if (connection.phase === 'error' || connection.phase === 'reconnecting') return 'error';
  if (connection.phase !== 'live' || activity === 'idle') return 'resting';
  if (activity === 'listening') return isHeard(state) ? 'listening' : 'resting';
  return activity;
}

/** Whole seconds until a moment; 0 once it has come. */
export function secondsUntil(moment: number, now: number): number {
  return Math.max(0, Math.ceil((moment - now) / 1000));
}

const WARNING_MS = 5 * 60_000;

/** Milliseconds that the session still has, once that is worth telling. */
export function timeLeft(state: AgentState, epochNow: number): number | null {
  const { expiresAtEpoch } = state.session;
  if (state.connection.phase !== 'live' || expiresAtEpoch === null) return null;
  const left = expiresAtEpoch - epochNow;
  return left <= WARNING_MS ? Math.max(0, left) : null;
}
