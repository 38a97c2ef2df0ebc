/** What the page remembers about how somebody likes it; what they said to the server is the engine's. */

import type { TransportKind } from '../engine/api';

export type Theme = 'auto' | 'light' | 'dark';
export type CaptionSize = 'small' | 'medium' | 'large' | 'huge';

export const THEMES: readonly Theme[] = ['auto', 'light', 'dark'];
export const CAPTION_SIZES: readonly CaptionSize[] = ['small', 'medium', 'large', 'huge'];
const TRANSPORTS: readonly TransportKind[] = ['websocket', 'webrtc'];

export interface Preferences {
  readonly theme: Theme;
  readonly captions: CaptionSize;
  readonly transport: TransportKind;
  /** Whether single letters are shortcuts: who dictates to the browser needs them off. */
  readonly shortcuts: boolean;
}

export const DEFAULTS: Preferences = { theme: 'auto', captions: 'medium', transport: 'websocket', shortcuts: true };
const NAME = 'voice-omni.page';

/** Whatever is stored, the result is complete and valid. */
export function parse(stored: string | null): Preferences {
  const raw = record(stored);
  return {
    theme: oneOf(THEMES, raw['theme'], DEFAULTS.theme),
    captions: oneOf(CAPTION_SIZES, raw['captions'], DEFAULTS.captions),
    transport: oneOf(TRANSPORTS, raw['transport'], DEFAULTS.transport),
    shortcuts: raw['shortcuts'] !== false,
  };
}

function record(stored: string | null): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(stored ?? '{}');
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

function oneOf<T>(known: readonly T[], value: unknown, fallback: T): T {
  return known.find((entry) => entry === value) ?? fallback;
}

/** A place to remember things in that may be closed: browsers can forbid it, and that must not stop a conversation. */
export interface Shelf {
  get(name: string): string | null;
  /** null forgets. */
  set(name: string, value: string | null): void;
}

export function shelf(open: () => Storage): Shelf {
  return {
    get(name) {
      try {
        return open().getItem(name);
      } catch {
        return null;
      }
    },
    set(name, value) {
      try {
        if (value === null) open().removeItem(name);
        else open().setItem(name, value);
      } catch {
        // Full or forbidden: what was chosen holds until the page is left.
      }
    },
  };
}

export function load(from: Shelf): Preferences {
  return parse(from.get(NAME));
}

export function save(to: Shelf, preferences: Preferences): void {
  to.set(NAME, JSON.stringify(preferences));
}

const KEY_NAME = 'voice-omni.key';

/** The key that opens the server. Given a shelf of `sessionStorage`, it is forgotten with the tab. */
export function loadKey(from: Shelf): string | null {
  return from.get(KEY_NAME);
}

export function saveKey(to: Shelf, key: string | null): void {
  to.set(KEY_NAME, key);
}
