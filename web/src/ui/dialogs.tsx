import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import licences from '../../LICENCES.txt?url';
import { IconButton } from './controls';
import { LEGEND } from './shortcuts';

interface DialogProps {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly onClose: () => void;
}

function Dialog({ title, children, onClose }: DialogProps) {
  const heading = useId();
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = box.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={box} aria-labelledby={heading} onClose={onClose}>
      <header class="panel-head">
        <h2 id={heading}>{title}</h2>
        <IconButton icon="close" label="Close" shortcut="Esc" onClick={onClose} />
      </header>
      {children}
    </dialog>
  );
}

export function HelpDialog({ letters, onClose }: { readonly letters: boolean; readonly onClose: () => void }) {
  return (
    <Dialog title="Keys and tips" onClose={onClose}>
      <table class="legend">
        <tbody>
          {LEGEND.map(([key, meaning]) => (
            <tr key={key}>
              <th scope="row">
                <kbd>{key}</kbd>
              </th>
              <td>{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!letters && <p class="note">Single letters are switched off in the settings.</p>}
      <p class="note">
        Headphones keep the assistant from hearing itself. Sound goes to this server and nowhere else.{' '}
        <a href={licences} target="_blank" rel="noreferrer">
          Licences
        </a>
      </p>
    </Dialog>
  );
}

interface KeyDialogProps {
  /** Whether the key that was given did not open the server. */
  readonly refused: boolean;
  readonly hasKey: boolean;
  readonly onKey: (key: string | null) => void;
  readonly onClose: () => void;
}

export function KeyDialog({ refused, hasKey, onKey, onClose }: KeyDialogProps) {
  const [key, setKey] = useState('');
  const id = useId();
  return (
    <Dialog title="Server key" onClose={onClose}>
      <form
        class="key-form"
        onSubmit={(event) => {
          event.preventDefault();
          if (key.trim() !== '') onKey(key.trim());
        }}
      >
        <label for={id}>
          {refused ? 'That key wasn’t accepted. Try another' : 'The key that whoever runs this server gave you'}
        </label>
        <input
          id={id}
          type="password"
          autocomplete="off"
          spellcheck={false}
          aria-invalid={refused}
          autofocus
          value={key}
          onInput={(event) => setKey(event.currentTarget.value)}
        />
        <p class="note">It is kept in this tab only and forgotten when you close it.</p>
        <div class="row end">
          {hasKey && (
            <button type="button" class="button quiet" onClick={() => onKey(null)}>
              Forget the key
            </button>
          )}
          <button type="submit" class="button" disabled={key.trim() === ''}>
            Use this key
          </button>
        </div>
      </form>
    </Dialog>
  );
}
