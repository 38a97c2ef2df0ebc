import { describe, expect, it } from 'vitest';
import { microphoneProblem, obstacle } from './microphone';

describe('why there is no microphone', () => {
  it.each([
    ['NotAllowedError', 'microphone-denied'],
    ['SecurityError', 'microphone-denied'],
    ['NotFoundError', 'microphone-not-found'],
    ['OverconstrainedError', 'microphone-not-found'],
    ['NotReadableError', 'microphone-in-use'],
    ['AbortError', 'microphone-in-use'],
    ['TypeError', 'microphone-failed'],
  ])('%s: %s', (name, code) => {
    expect(microphoneProblem(new DOMException('x', name)).code).toBe(code);
  });

  it('is something, whatever is thrown', () => {
    expect(microphoneProblem('no').code).toBe('microphone-failed');
  });
});

describe('what is in the way before anybody is asked', () => {
  const fine = { secure: true, hasDevices: true, hasWorklet: true };

  it('is nothing on a secure page of a browser that can', () => {
    expect(obstacle(fine)).toBeNull();
  });

  it.each([
    [{ ...fine, secure: false }, 'insecure-context'],
    [{ secure: false, hasDevices: false, hasWorklet: false }, 'insecure-context'],
    [{ ...fine, hasDevices: false }, 'unsupported-browser'],
    [{ ...fine, hasWorklet: false }, 'unsupported-browser'],
  ])('%j: %s', (here, code) => {
    expect(obstacle(here)?.code).toBe(code);
  });
});
