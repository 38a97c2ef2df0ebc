/** A conversation that is put back, item by item, into a new session; what was not heard stays out. */

import type { ClientEvent, Item } from '../protocol/events';
import type { Entry } from './entries';

function itemOf(entry: Entry): Item | null {
  switch (entry.kind) {
    case 'user': {
      if (entry.text === '' || entry.status === 'speaking') return null;
      const part =
        entry.source === 'text'
          ? ({ type: 'input_text', text: entry.text } as const)
          : ({ type: 'input_audio', transcript: entry.text } as const);
      return { id: entry.id, type: 'message', role: 'user', content: [part] };
    }
    case 'assistant': {
      const text = (entry.interrupted ? entry.text.slice(0, entry.heardLength) : entry.text).trim();
      if (text === '') return null;
      const part = entry.spoken
        ? ({ type: 'output_audio', transcript: text } as const)
        : ({ type: 'output_text', text } as const);
      return { id: entry.id, type: 'message', role: 'assistant', content: [part] };
    }
    case 'tool': {
      if (entry.status !== 'done') return null;
      const { id, callId, name } = entry;
      return { id, type: 'function_call', call_id: callId, name, arguments: entry.arguments };
    }
  }
}

function outputOf(entry: Entry): Item | null {
  if (entry.kind !== 'tool' || entry.output === null) return null;
  return { id: `${entry.id}_out`, type: 'function_call_output', call_id: entry.callId, output: entry.output };
}

/** The events that make it so, in order. */
export function replay(entries: readonly Entry[]): ClientEvent[] {
  const items = entries.flatMap((entry) => [itemOf(entry), outputOf(entry)]).filter((item) => item !== null);
  return items.map((item, index) => ({
    type: 'conversation.item.create',
    previous_item_id: items[index - 1]?.id ?? 'root',
    item,
  }));
}

/** Whether the last thing said was the person's, and nobody has begun to answer it. */
export function isUnanswered(entries: readonly Entry[]): boolean {
  const last = entries.findLast((entry) => itemOf(entry) !== null);
  return last?.kind === 'user';
}
