/** The conversation as plain text, for people to keep. */

import type { Turn } from '../api';

function line(turn: Turn): string {
  switch (turn.kind) {
    case 'user':
      return `You: ${turn.text || '(not understood)'}`;
    case 'tool':
      return `Tool ${turn.name}(${turn.arguments}): ${turn.output ?? '(no result)'}`;
    case 'assistant': {
      const rest = turn.unheard.trim();
      const cut = turn.interrupted ? ` [interrupted${rest === '' ? '' : `; not heard: ${rest}`}]` : '';
      return `Assistant: ${turn.heard.trim()}${cut}`;
    }
  }
}

export function transcriptText(turns: readonly Turn[]): string {
  return turns.map((turn) => `${line(turn)}\n`).join('');
}
