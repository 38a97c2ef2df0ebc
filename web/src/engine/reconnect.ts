/** Why connections end, whether to come back, and when. */

import type { Problem, ProblemCode } from './api';
import type { ErrorObject } from './protocol/events';

export interface End {
  readonly problem: Problem;
  /** Whether the same attempt can succeed later. */
  readonly retry: boolean;
}

export const ATTEMPTS = 8;
const FIRST_MS = 500;
const LONGEST_MS = 8000;

/** The pause before an attempt (1, 2, …): doubles, and is spread so that a server is not met by everybody at once. */
export function pauseBefore(attempt: number, random: () => number): number {
  const most = Math.min(LONGEST_MS, FIRST_MS * 2 ** (attempt - 1));
  return most / 2 + (random() * most) / 2;
}

function end(code: ProblemCode, detail: string, retry: boolean): End {
  return { problem: { code, detail }, retry };
}

/** What an error says of the connection that it is the end of. */
function announced(error: ErrorObject): End | null {
  switch (error.code) {
    case 'overloaded':
      return end('server-full', error.message, true);
    case 'not_ready':
      return end('server-starting', error.message, true);
    case 'invalid_api_key':
    case 'insufficient_permissions':
      return end('unauthorized', error.message, false);
    case 'origin_not_allowed':
      return end('origin-not-allowed', error.message, false);
    case 'session_expired':
      return end('session-expired', error.message, false);
    case 'server_shutting_down':
      return end('server-gone', error.message, true);
    case 'internal_error':
    case 'start_failed':
    case 'call_failed':
      return end('server-failed', error.message, true);
    default:
      return null;
  }
}

/**
 * The end of a WebSocket (RFC 6455, 7.4). `error`: the last `error` event before it; `opened`: whether it was ever open,
 * because browsers do not tell why a handshake failed.
 */
export function endOfSocket(code: number, reason: string, error: ErrorObject | null, opened: boolean): End {
  const detail = `closed with ${code}${reason === '' ? '' : ` (${reason})`}`;
  const told = error === null || ![1001, 1008, 1013].includes(code) ? null : announced(error);
  if (told !== null) return told;
  if (!opened) return end('server-unreachable', detail, true);
  switch (code) {
    case 1001:
    case 1012:
      return end('server-gone', detail, true);
    case 1008:
      return end('unauthorized', detail, false);
    case 1011:
      return end('server-failed', detail, true);
    case 1013:
      return end('server-full', detail, true);
    case 1000:
      return end('server-gone', detail, false);
    case 1005:
    case 1006:
    case 1015:
      return end('connection-lost', detail, true);
    default:
      return end('protocol-error', detail, false);
  }
}

/** The end of a call, which has no code: `error` is the last `error` event before it. */
export function endOfCall(detail: string, error: ErrorObject | null): End {
  return (error && announced(error)) ?? end('connection-lost', detail, true);
}

/** An offer that was refused over HTTP. `error`: what the answer says, if it comes from the server and no proxy. */
export function endOfOffer(status: number, error: ErrorObject | null): End {
  const told = error && announced(error);
  if (told) return told;
  const detail = error === null ? `refused with ${status}` : `${error.code ?? status}: ${error.message}`;
  if (status === 401 || status === 403) return end('unauthorized', detail, false);
  if (error?.code === 'no_candidates' || status === 404 || status === 405 || status === 501) {
    return end('webrtc-unavailable', detail, false);
  }
  if (status === 429) return end('server-full', detail, true);
  if (status === 502 || status === 503 || status === 504) return end('server-gone', detail, true);
  return status >= 500 ? end('server-failed', detail, true) : end('protocol-error', detail, false);
}
