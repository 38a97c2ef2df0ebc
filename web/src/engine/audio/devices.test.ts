import { describe, expect, it } from 'vitest';
import { rememberDevices, rememberedDevices } from './devices';

/** `localStorage`, as far as it is used. */
function storage(content?: string): Storage {
  const kept = new Map(content === undefined ? [] : [['voice-omni.devices', content]]);
  return {
    get length() {
      return kept.size;
    },
    clear: () => kept.clear(),
    getItem: (key) => kept.get(key) ?? null,
    key: () => null,
    removeItem: (key) => void kept.delete(key),
    setItem: (key, value) => void kept.set(key, value),
  };
}

const none = { microphone: null, speaker: null };

describe('chosen devices', () => {
  it('are remembered', () => {
    const shelf = storage();
    rememberDevices(shelf, { microphone: 'm1', speaker: null });
    expect(rememberedDevices(shelf)).toEqual({ microphone: 'm1', speaker: null });
  });

  it.each([undefined, '', '{', '7', 'null', '[]', '{"microphone":7,"speaker":""}'])('are none in %j', (content) => {
    expect(rememberedDevices(storage(content))).toEqual(none);
  });

  it('need no storage', () => {
    rememberDevices(null, none);
    expect(rememberedDevices(null)).toEqual(none);
  });
});
