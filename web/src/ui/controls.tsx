/** The small parts that everything else is made of. */

import type { ComponentChildren } from 'preact';
import { useId } from 'preact/hooks';
import { Icon, type IconName } from './icons';

interface IconButtonProps {
  readonly icon: IconName;
  readonly label: string;
  /** Shown with the label when pointed at. */
  readonly shortcut?: string;
  /** For what is on or off. */
  readonly pressed?: boolean;
  /** For what opens something. */
  readonly expanded?: boolean;
  readonly disabled?: boolean;
  readonly class?: string;
  readonly onClick: () => void;
}

export function IconButton({ icon, label, shortcut, pressed, expanded, disabled, onClick, ...more }: IconButtonProps) {
  return (
    <button
      type="button"
      class={`icon-button ${more.class ?? ''}`}
      aria-label={label}
      aria-pressed={pressed}
      aria-expanded={expanded}
      disabled={disabled ?? false}
      title={shortcut ? `${label} (${shortcut})` : label}
      onClick={onClick}
    >
      <Icon name={icon} />
    </button>
  );
}

interface FieldProps {
  readonly label: string;
  readonly note?: ComponentChildren;
  readonly children: (ids: { id: string; describedBy: string | undefined }) => ComponentChildren;
}

/** A labelled control with an optional note below. */
export function Field({ label, note, children }: FieldProps) {
  const id = useId();
  const noteId = `${id}-note`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children({ id, describedBy: note ? noteId : undefined })}
      {note && (
        <p class="note" id={noteId}>
          {note}
        </p>
      )}
    </div>
  );
}

interface SelectProps<T extends string> {
  readonly label: string;
  readonly note?: ComponentChildren;
  readonly value: T;
  readonly options: readonly (readonly [T, string])[];
  readonly disabled?: boolean;
  readonly onChange: (value: T) => void;
}

export function Select<T extends string>({ label, note, value, options, disabled, onChange }: SelectProps<T>) {
  return (
    <Field label={label} note={note}>
      {({ id, describedBy }) => (
        <div class="select">
          <select
            id={id}
            aria-describedby={describedBy}
            value={value}
            disabled={disabled ?? false}
            onChange={(event) => onChange(event.currentTarget.value as T)}
          >
            {options.map(([name, shown]) => (
              <option key={name} value={name} selected={name === value}>
                {shown}
              </option>
            ))}
          </select>
          <Icon name="down" />
        </div>
      )}
    </Field>
  );
}

interface SliderProps {
  readonly label: string;
  readonly note?: string;
  readonly value: number;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  readonly shown: (value: number) => string;
  readonly onChange: (value: number) => void;
}

export function Slider({ label, note, value, min, max, step, shown, onChange }: SliderProps) {
  return (
    <Field label={label} note={note}>
      {({ id, describedBy }) => (
        <div class="slider">
          <input
            id={id}
            type="range"
            min={min}
            max={max}
            step={step}
            value={value}
            aria-describedby={describedBy}
            aria-valuetext={shown(value)}
            onChange={(event) => onChange(event.currentTarget.valueAsNumber)}
          />
          <output for={id}>{shown(value)}</output>
        </div>
      )}
    </Field>
  );
}

interface ChoiceProps<T extends string> {
  readonly label: string;
  readonly note?: ComponentChildren;
  readonly value: T;
  readonly options: readonly (readonly [T, string])[];
  readonly onChange: (value: T) => void;
}

/** A few alternatives side by side. */
export function Choice<T extends string>({ label, note, value, options, onChange }: ChoiceProps<T>) {
  const name = useId();
  return (
    <fieldset class="field choice">
      <legend>{label}</legend>
      <div class="segments">
        {options.map(([key, shown]) => (
          <label key={key}>
            <input type="radio" name={name} value={key} checked={key === value} onChange={() => onChange(key)} />
            <span>{shown}</span>
          </label>
        ))}
      </div>
      {note && <p class="note">{note}</p>}
    </fieldset>
  );
}

interface SwitchProps {
  readonly label: string;
  readonly note?: string;
  readonly on: boolean;
  readonly onChange: (on: boolean) => void;
}

export function Switch({ label, note, on, onChange }: SwitchProps) {
  return (
    <div class="field">
      <label class="switch">
        <span>{label}</span>
        <input
          type="checkbox"
          role="switch"
          checked={on}
          aria-checked={on}
          onChange={(event) => onChange(event.currentTarget.checked)}
        />
      </label>
      {note && <p class="note">{note}</p>}
    </div>
  );
}
