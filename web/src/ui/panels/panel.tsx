import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef } from 'preact/hooks';
import { IconButton } from '../controls';

interface PanelProps {
  readonly title: string;
  /** Buttons beside the title. */
  readonly actions?: ComponentChildren;
  readonly children: ComponentChildren;
  readonly onClose: () => void;
}

/** A drawer beside the stage; on a phone it covers it. Takes the focus, and gives it back to where it was. */
export function Panel({ title, actions, children, onClose }: PanelProps) {
  const heading = useId();
  const box = useRef<HTMLElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    box.current?.focus({ preventScroll: true });
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return (
    <aside ref={box} class="panel" tabIndex={-1} aria-labelledby={heading}>
      <header class="panel-head">
        <h2 id={heading}>{title}</h2>
        {actions}
        <IconButton icon="close" label={`Close ${title.toLowerCase()}`} shortcut="Esc" onClick={onClose} />
      </header>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <div class="panel-body" tabIndex={0}>
        {children}
      </div>
    </aside>
  );
}
