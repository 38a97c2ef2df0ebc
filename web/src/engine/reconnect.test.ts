import { describe, expect, it } from 'vitest';
import { endOfOffer, endOfSocket, pauseBefore } from './reconnect';

describe('the pause before an attempt', () => {
  it('doubles up to eight seconds and is spread over its upper half', () => {
    const least = [1, 2, 3, 4, 5, 6].map((attempt) => pauseBefore(attempt, () => 0));
    const most = [1, 2, 3, 4, 5, 6].map((attempt) => pauseBefore(attempt, () => 1));
    expect(least).toEqual([250, 500, 1000, 2000, 4000, 4000]);
    expect(most).toEqual([500, 1000, 2000, 4000, 8000, 8000]);
  });
});

describe('the end of a socket', () => {
  it.each([
    [1000, false, 'server-gone'],
    [1001, true, 'server-gone'],
    [1002, false, 'protocol-error'],
    [1006, true, 'connection-lost'],
    [1008, false, 'unauthorized'],
    [1009, false, 'protocol-error'],
    [1011, true, 'server-failed'],
    [1012, true, 'server-gone'],
    [1013, true, 'server-full'],
  ] as const)('with %i: come back: %s, because: %s', (code, retry, problem) => {
    expect(endOfSocket(code, '', null, true)).toMatchObject({ retry, problem: { code: problem } });
  });

  it.each([
    [1013, 'overloaded', 'server-full', true],
    [1013, 'not_ready', 'server-starting', true],
    [1013, 'server_shutting_down', 'server-gone', true],
    [1008, 'origin_not_allowed', 'origin-not-allowed', false],
    [1008, 'invalid_api_key', 'unauthorized', false],
    [1001, 'session_expired', 'session-expired', false],
  ] as const)('with %i after the error %s is told by that', (code, error, problem, retry) => {
    const end = endOfSocket(code, 'x', { code: error, message: 'Why.' }, true);
    expect(end).toEqual({ problem: { code: problem, detail: 'Why.' }, retry });
  });

  it('is not told by an error that had nothing to do with it', () => {
    const end = endOfSocket(1006, '', { code: 'session_expired', message: '' }, true);
    expect(end.problem.code).toBe('connection-lost');
  });

  it('that was never open is a server that is not there', () => {
    expect(endOfSocket(1006, '', null, false).problem.code).toBe('server-unreachable');
  });
});

describe('an offer that is refused', () => {
  it.each([
    [401, 'unauthorized', false],
    [404, 'webrtc-unavailable', false],
    [429, 'server-full', true],
    [503, 'server-gone', true],
    [500, 'server-failed', true],
    [400, 'protocol-error', false],
  ] as const)('with %i and no reason is %s', (status, code, retry) => {
    expect(endOfOffer(status, null)).toMatchObject({ problem: { code }, retry });
  });

  it.each([
    [503, 'overloaded', 'server-full', true],
    [503, 'not_ready', 'server-starting', true],
    [503, 'server_shutting_down', 'server-gone', true],
    [503, 'call_failed', 'server-failed', true],
    [503, 'no_candidates', 'webrtc-unavailable', false],
    [403, 'origin_not_allowed', 'origin-not-allowed', false],
    [400, 'unsupported_codec', 'protocol-error', false],
  ] as const)('with %i because of %s is %s', (status, error, code, retry) => {
    const end = endOfOffer(status, { code: error, message: 'Why.' });
    expect(end).toMatchObject({ problem: { code }, retry });
    expect(end.problem.detail).toContain('Why.');
  });
});
