/** What the page and its audio worklets tell each other. */

import type { Cut, PlaybackStatus } from './playback';

export const CAPTURE_PROCESSOR = 'voice-omni-capture';
export const PLAYBACK_PROCESSOR = 'voice-omni-playback';

export type PlaybackCommand =
  | { readonly type: 'push'; readonly item: string; readonly pcm: Int16Array<ArrayBuffer> }
  | { readonly type: 'end'; readonly item: string }
  | { readonly type: 'clear' };

export type PlaybackReport =
  | { readonly type: 'status'; readonly status: PlaybackStatus }
  | { readonly type: 'cleared'; readonly cuts: readonly Cut[] };
