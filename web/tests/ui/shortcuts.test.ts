import { describe, expect, it } from 'vitest';
import { type Command, commandOf, LEGEND, type Stroke } from '../../src/ui/shortcuts';

const PLAIN: Stroke = { key: ' ', modified: false, repeat: false, writing: false, operating: false };

describe('a key', () => {
  it.each<[string, Command]>([
    [' ', 'talk'],
    ['Escape', 'stop'],
    ['m', 'mute'],
    ['M', 'mute'],
    ['/', 'type'],
    ['?', 'help'],
  ])('%j asks for %s', (key, command) => {
    expect(commandOf({ ...PLAIN, key }, true)).toBe(command);
  });

  it('is the browser’s when a modifier is down', () => {
    expect(commandOf({ ...PLAIN, key: 'r', modified: true }, true)).toBeNull();
  });

  it('counts once while it is held', () => {
    expect(commandOf({ ...PLAIN, repeat: true }, true)).toBeNull();
  });

  it('is a letter where somebody writes, but Escape still stops the answer', () => {
    expect(commandOf({ ...PLAIN, key: 'm', writing: true }, true)).toBeNull();
    expect(commandOf({ ...PLAIN, writing: true }, true)).toBeNull();
    expect(commandOf({ ...PLAIN, key: 'Escape', writing: true }, true)).toBe('stop');
  });

  it('presses the button that has the focus instead of opening the microphone', () => {
    expect(commandOf({ ...PLAIN, operating: true }, true)).toBeNull();
    expect(commandOf({ ...PLAIN, key: 'm', operating: true }, true)).toBe('mute');
  });

  it('that is a letter does nothing once letters are switched off; the others still work', () => {
    expect(commandOf({ ...PLAIN, key: 'm' }, false)).toBeNull();
    expect(commandOf({ ...PLAIN, key: '?' }, false)).toBeNull();
    expect(commandOf(PLAIN, false)).toBe('talk');
    expect(commandOf({ ...PLAIN, key: 'Escape' }, false)).toBe('stop');
  });

  it('that the help names does something', () => {
    const typed: Readonly<Record<string, string>> = { Space: ' ', Esc: 'Escape' };
    for (const [name] of LEGEND) expect(commandOf({ ...PLAIN, key: typed[name] ?? name }, true), name).not.toBeNull();
  });
});
