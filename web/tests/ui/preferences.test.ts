import { describe, expect, it } from 'vitest';
import { DEFAULTS, load, loadKey, parse, save, saveKey, shelf } from '../../src/ui/preferences';

class Memory implements Storage {
  readonly #held = new Map<string, string>();
  get length(): number {
    return this.#held.size;
  }
  clear(): void {
    this.#held.clear();
  }
  getItem(name: string): string | null {
    return this.#held.get(name) ?? null;
  }
  key(index: number): string | null {
    return [...this.#held.keys()][index] ?? null;
  }
  removeItem(name: string): void {
    this.#held.delete(name);
  }
  setItem(name: string, value: string): void {
    this.#held.set(name, value);
  }
}

const forbidden = shelf(() => {
  throw new DOMException('The operation is insecure.', 'SecurityError');
});

describe('preferences', () => {
  it('are the defaults where nothing or nonsense is stored', () => {
    for (const stored of [null, '', 'null', '[]', '{', '"dark"', '{"theme": "purple", "captions": 4}']) {
      expect(parse(stored)).toEqual(DEFAULTS);
    }
  });

  it('keep what is valid beside what is not', () => {
    expect(parse('{"theme": "dark", "captions": "vast", "shortcuts": false}')).toEqual({
      ...DEFAULTS,
      theme: 'dark',
      shortcuts: false,
    });
  });

  it('come back as they were saved', () => {
    const memory = new Memory();
    const chosen = { theme: 'light', captions: 'huge', transport: 'webrtc', shortcuts: false } as const;
    save(
      shelf(() => memory),
      chosen,
    );
    expect(load(shelf(() => memory))).toEqual(chosen);
  });

  it('do not stop the page where the browser forbids to store', () => {
    save(forbidden, DEFAULTS);
    expect(load(forbidden)).toEqual(DEFAULTS);
  });
});

describe('the key', () => {
  it('is kept until it is forgotten', () => {
    const memory = new Memory();
    const tab = shelf(() => memory);
    saveKey(tab, 'sk-0123456789abcdef');
    expect(loadKey(tab)).toBe('sk-0123456789abcdef');
    saveKey(tab, null);
    expect(loadKey(tab)).toBeNull();
    expect(memory.length).toBe(0);
  });
});
