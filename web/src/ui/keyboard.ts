import { useRef } from 'preact/hooks';
import { useStable, useWindow } from './hooks';
import { type Command, commandOf, strokeOf } from './shortcuts';

interface KeyboardOptions {
  /** false while something else has the keys. */
  readonly enabled: boolean;
  readonly letters: boolean;
  readonly onTalk: (down: boolean) => void;
  readonly onCommand: (command: Exclude<Command, 'talk'>) => void;
}

/** The page's shortcuts. A key that is held to talk is let go of for sure: also when the window loses the focus. */
export function useKeyboard({ enabled, letters, onTalk, onCommand }: KeyboardOptions): void {
  const talking = useRef(false);
  const release = useStable(() => {
    if (!talking.current) return;
    talking.current = false;
    onTalk(false);
  });
  useWindow('keydown', (event) => {
    if (!enabled) return;
    const command = commandOf(strokeOf(event), letters);
    if (talking.current && event.key === ' ') event.preventDefault();
    if (command === null) return;
    event.preventDefault();
    if (command !== 'talk') return onCommand(command);
    talking.current = true;
    onTalk(true);
  });
  useWindow('keyup', (event) => {
    if (event.key === ' ') release();
  });
  useWindow('blur', release);
}
