/** What is remembered of each item of the conversation, and what the page is shown of it. */

import type { AssistantTurn, ToolCall, Turn, UserTurn } from '../api';

export interface UserEntry extends UserTurn {
  /** Whether the server holds it as an item. */
  readonly committed: boolean;
}

export interface AssistantEntry {
  readonly kind: 'assistant';
  readonly id: string;
  readonly responseId: string;
  readonly spoken: boolean;
  readonly text: string;
  readonly audioMs: number;
  readonly audioComplete: boolean;
  readonly playedMs: number;
  /** Characters of the text that were spoken. */
  readonly heardLength: number;
  /** Its response is done. */
  readonly written: boolean;
  /** Played to its end, cut off, or never to be played. */
  readonly silent: boolean;
  readonly interrupted: boolean;
  readonly failed: boolean;
  readonly latencyMs: number | null;
  readonly at: number;
}

export interface ToolEntry extends ToolCall {
  readonly callId: string;
}

export type Entry = UserEntry | AssistantEntry | ToolEntry;

function shownAssistant(entry: AssistantEntry): AssistantTurn {
  const over = entry.written && (entry.silent || !entry.spoken);
  const heardAll = !entry.spoken || (over && !entry.interrupted);
  const length = heardAll ? entry.text.length : entry.heardLength;
  return {
    kind: 'assistant',
    id: entry.id,
    responseId: entry.responseId,
    heard: entry.text.slice(0, length),
    unheard: entry.text.slice(length),
    status: entry.failed ? 'failed' : over ? 'final' : 'live',
    interrupted: entry.interrupted,
    spoken: entry.spoken,
    latencyMs: entry.latencyMs,
    at: entry.at,
  };
}

function turnOf(entry: Entry): Turn {
  switch (entry.kind) {
    case 'tool':
      return entry;
    case 'assistant':
      return shownAssistant(entry);
    case 'user': {
      const { kind, id, source, text, status, at } = entry;
      return { kind, id, source, text, status, at };
    }
  }
}

/** Nothing was said, and nothing will be. */
function isEmpty(turn: Turn): boolean {
  return turn.kind === 'assistant' && turn.status !== 'live' && turn.heard === '' && turn.unheard === '';
}

function isSame(turn: Turn, other: Turn | undefined): other is Turn {
  if (other === undefined) return false;
  const fields: Readonly<Record<string, unknown>> = { ...other };
  return Object.entries(turn).every(([name, value]) => fields[name] === value);
}

/** What is shown of the entries. Turns that look as they did `before` are the same objects, and so is a list of them. */
export function turnsOf(entries: readonly Entry[], before: readonly Turn[] = []): readonly Turn[] {
  const turns = entries
    .map(turnOf)
    .filter((turn) => !isEmpty(turn))
    .map((turn, index) => {
      const earlier = before[index];
      return isSame(turn, earlier) ? earlier : turn;
    });
  return turns.length === before.length && turns.every((turn, index) => turn === before[index]) ? before : turns;
}
