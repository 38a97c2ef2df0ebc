/** Which key does what. Pure: an event's facts in, a command out. */

export type Command =
  | 'talk'
  | 'stop'
  | 'mute'
  | 'type'
  | 'settings'
  | 'insights'
  | 'log'
  | 'record'
  | 'captions'
  | 'help';

export interface Stroke {
  readonly key: string;
  /** Whether Ctrl, Alt or Meta is down: then the key is the browser's or the system's. */
  readonly modified: boolean;
  readonly repeat: boolean;
  /** Whether the focus is where letters are written. */
  readonly writing: boolean;
  /** Whether the focus is on what a key press would operate: a button, a slider. */
  readonly operating: boolean;
}

const LETTERS: Readonly<Record<string, Command>> = {
  m: 'mute',
  t: 'type',
  '/': 'type',
  ',': 'settings',
  i: 'insights',
  l: 'log',
  r: 'record',
  c: 'captions',
  '?': 'help',
};

/** For the help: keys and what they do. */
export const LEGEND: readonly (readonly [string, string])[] = [
  ['Space', 'Hold to talk, also while muted'],
  ['Esc', 'Stop the answer; close a panel'],
  ['M', 'Mute and unmute'],
  ['T', 'Type a message'],
  ['C', 'Larger captions'],
  ['R', 'Record to a WAV file'],
  [',', 'Settings'],
  ['I', 'Timings'],
  ['L', 'Event log'],
  ['?', 'This help'],
];

/** What a key going down asks for; null: nothing of ours. `letters`: whether single letters count. */
export function commandOf(stroke: Stroke, letters: boolean): Command | null {
  if (stroke.modified || stroke.repeat) return null;
  if (stroke.key === 'Escape') return 'stop';
  if (stroke.writing) return null;
  if (stroke.key === ' ') return stroke.operating ? null : 'talk';
  return letters ? (LETTERS[stroke.key.toLowerCase()] ?? null) : null;
}

/** The facts of an event. */
export function strokeOf(event: KeyboardEvent): Stroke {
  const target = event.target instanceof Element ? event.target : null;
  return {
    key: event.key,
    modified: event.ctrlKey || event.altKey || event.metaKey,
    repeat: event.repeat,
    writing: target?.closest('textarea, select, input:not([type=range], [type=checkbox], [type=radio])') != null,
    operating: target?.closest('button, a, summary, input, [role=button]') != null,
  };
}
