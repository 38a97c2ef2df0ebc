import { useRef } from 'preact/hooks';
import type { Turn } from '../engine/api';

/**
 * Tells a screen reader what was said, once it holds: half a sentence that changes while it is read out is worse than
 * none. `status`: of the conversation, told when it changes.
 */
export function Announcer({ turns, status }: { readonly turns: readonly Turn[]; readonly status: string }) {
  const told = useRef(new Set<string>());
  const last = useRef('');
  for (const turn of turns) {
    const words = finished(turn);
    if (words === null || told.current.has(turn.id)) continue;
    told.current.add(turn.id);
    last.current = words;
  }
  return (
    <div class="sr-only">
      <p role="status" aria-live="polite">
        {status}
      </p>
      <p role="log" aria-live="polite" aria-label="Last said">
        {last.current}
      </p>
    </div>
  );
}

/** What there is to tell of a turn, null while it may change. */
export function finished(turn: Turn): string | null {
  if (turn.kind === 'user') return turn.status === 'final' && turn.text ? `You: ${turn.text}` : null;
  if (turn.kind === 'tool') return null;
  if (turn.status === 'live') return null;
  if (turn.status === 'failed') return 'The answer failed.';
  const words = turn.interrupted ? turn.heard : turn.heard + turn.unheard;
  return `Assistant: ${words}${turn.interrupted ? ' (interrupted)' : ''}`;
}
