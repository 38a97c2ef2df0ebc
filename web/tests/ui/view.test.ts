import { describe, expect, it } from 'vitest';
import type { AgentState } from '../../src/engine/api';
import { isHeard, moodOf, screenOf, secondsUntil, timeLeft } from '../../src/ui/view';
import { sceneOf } from './scenes';
import { QUIET } from './scripted-agent';

function state(name: string): AgentState {
  const scene = sceneOf(name, 0, 0);
  if (!scene) throw new Error(name);
  return scene.state;
}

describe('the mood of the orb', () => {
  it.each([
    ['welcome', 'resting'],
    ['connecting', 'resting'],
    ['listening', 'listening'],
    ['hearing', 'listening'],
    ['thinking', 'thinking'],
    ['speaking', 'speaking'],
    ['reconnecting', 'error'],
    ['lost', 'error'],
    ['ended', 'resting'],
  ])('in %s is %s', (name, mood) => {
    expect(moodOf(state(name))).toBe(mood);
  });

  it.each(['muted', 'push-to-talk', 'text-only'])('does not pretend to listen in %s', (name) => {
    expect(isHeard(state(name))).toBe(false);
    expect(moodOf(state(name))).toBe('resting');
  });

  it('listens while push-to-talk is held', () => {
    const released = state('push-to-talk');
    const held = { ...released, microphone: { ...released.microphone, held: true } };
    expect(moodOf(held)).toBe('listening');
  });
});

describe('the screen', () => {
  it('welcomes until somebody is connected, also when that fails', () => {
    for (const name of ['welcome', 'permission', 'connecting', 'denied', 'full']) {
      expect(screenOf(state(name)), name).toBe('welcome');
    }
  });

  it('keeps showing a conversation that is over or broken', () => {
    for (const name of ['first', 'ended', 'lost', 'reconnecting']) {
      expect(screenOf(state(name)), name).toBe('conversation');
    }
  });
});

describe('countdowns', () => {
  it('end at zero', () => {
    expect(secondsUntil(10_000, 6_001)).toBe(4);
    expect(secondsUntil(10_000, 12_000)).toBe(0);
  });

  it('of the session begin five minutes before its end', () => {
    const ends = (expiresAtEpoch: number | null): AgentState => ({
      ...state('listening'),
      session: { ...QUIET.session, expiresAtEpoch },
    });
    expect(timeLeft(ends(null), 0)).toBeNull();
    expect(timeLeft(ends(3_600_000), 0)).toBeNull();
    expect(timeLeft(ends(300_000), 0)).toBe(300_000);
    expect(timeLeft(ends(1_000), 2_000)).toBe(0);
  });
});
