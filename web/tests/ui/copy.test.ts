import { describe, expect, it } from 'vitest';
import type { AgentState, ProblemCode } from '../../src/engine/api';
import { adviceFor, captionFor, noticeText } from '../../src/ui/copy';
import { sceneNames, sceneOf } from './scenes';
import { QUIET } from './scripted-agent';

const CODES: Readonly<Record<ProblemCode, true>> = {
  'insecure-context': true,
  'microphone-denied': true,
  'microphone-not-found': true,
  'microphone-in-use': true,
  'microphone-failed': true,
  'unsupported-browser': true,
  'server-unreachable': true,
  'server-full': true,
  'server-starting': true,
  unauthorized: true,
  'origin-not-allowed': true,
  'session-expired': true,
  'server-gone': true,
  'server-failed': true,
  'connection-lost': true,
  'webrtc-unavailable': true,
  'protocol-error': true,
};
const ALL = Object.keys(CODES) as ProblemCode[];

describe('a problem', () => {
  it('has words of its own and a way out', () => {
    const told = ALL.map((code) => adviceFor({ code, detail: '' }, null));
    expect(new Set(told.map(({ title }) => title)).size).toBe(ALL.length);
    expect(new Set(told.map(({ text }) => text)).size).toBe(ALL.length);
    for (const { remedies } of told) expect(remedies.length).toBeGreaterThan(0);
  });

  it('with the microphone lets people type', () => {
    for (const code of ALL.filter((name) => name.startsWith('microphone') || name === 'insecure-context')) {
      expect(adviceFor({ code, detail: '' }, null).remedies).toContain('text-only');
    }
  });

  it('says how many talk when the server does', () => {
    const full = { code: 'server-full', detail: '' } as const;
    expect(adviceFor(full, { current: 32, max: 32 }).text).toContain('32');
    expect(adviceFor(full, null).text).not.toMatch(/\d/);
  });
});

describe('the caption', () => {
  const labels = (touch: boolean) =>
    Object.fromEntries(sceneNames().map((name) => [name, captionFor(sceneOf(name, 0, 0)?.state ?? QUIET, touch)]));

  it('tells every state of a conversation from the others', () => {
    const shown = labels(false);
    const states = ['listening', 'hearing', 'thinking', 'speaking', 'muted', 'push-to-talk', 'text-only', 'lost'];
    expect(new Set(states.map((name) => shown[name]?.label)).size).toBe(states.length);
  });

  it('speaks of no keys where there are fingers', () => {
    for (const { hint } of Object.values(labels(true))) expect(hint).not.toMatch(/space bar|Esc/);
  });

  it('says that a muted person is heard while the key is held', () => {
    const muted = sceneOf('muted', 0, 0)?.state as AgentState;
    expect(captionFor(muted, false).label).toBe('You’re muted');
    const held = { ...muted, microphone: { ...muted.microphone, held: true } };
    expect(captionFor(held, false).label).toBe('Listening');
  });
});

it('notices are told in words of ours, not the server’s', () => {
  expect(noticeText({ code: 'settings-refused', detail: 'Invalid value for session.audio' })).not.toContain('session.');
});
