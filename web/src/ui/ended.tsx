import type { Conversation } from './conversation';
import { Icon } from './icons';

/** What one can do with a conversation that is over. */
export function Ended({ conversation }: { readonly conversation: Conversation }) {
  return (
    <div class="dock ended" role="group" aria-label="Conversation ended">
      <button type="button" class="button primary" onClick={conversation.retry}>
        <Icon name="mic" /> Carry on
      </button>
      <button type="button" class="button" onClick={conversation.anew}>
        Start over
      </button>
    </div>
  );
}
