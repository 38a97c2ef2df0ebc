import type { AgentState } from '../engine/api';
import { IconButton } from './controls';
import { clock } from './format';
import { useNow } from './hooks';
import { Icon } from './icons';
import { timeLeft } from './view';

export type PanelName = 'settings' | 'insights' | 'log';

interface HeaderProps {
  readonly state: AgentState;
  readonly panel: PanelName | null;
  readonly onPanel: (panel: PanelName) => void;
  readonly onRecord: () => void;
  readonly onHelp: () => void;
}

const epoch = () => Date.now();

export function Header({ state, panel, onPanel, onRecord, onHelp }: HeaderProps) {
  const { recording, connection, session } = state;
  const live = connection.phase === 'live';
  return (
    <header class="top">
      <h1 class="wordmark">
        <Mark />
        <span>voice_omni</span>
        {session.model && <span class="model">{session.model}</span>}
      </h1>
      <TimeLeft state={state} />
      <nav aria-label="Panels">
        {recording.active ? (
          <button type="button" class="recording" onClick={onRecord} title="Stop and save (R)">
            <span class="sr-only">Stop recording and save, </span>
            <i aria-hidden="true" /> {clock(1000 * recording.seconds)}
          </button>
        ) : (
          live && <IconButton icon="record" label="Record to a WAV file" shortcut="R" onClick={onRecord} />
        )}
        <Opener name="insights" icon="gauge" label="Timings" shortcut="I" panel={panel} onPanel={onPanel} />
        <Opener name="log" icon="log" label="Event log" shortcut="L" panel={panel} onPanel={onPanel} />
        <Opener name="settings" icon="sliders" label="Settings" shortcut="," panel={panel} onPanel={onPanel} />
        <IconButton icon="help" label="Help" shortcut="?" onClick={onHelp} />
      </nav>
    </header>
  );
}

interface OpenerProps {
  readonly name: PanelName;
  readonly icon: 'gauge' | 'log' | 'sliders';
  readonly label: string;
  readonly shortcut: string;
  readonly panel: PanelName | null;
  readonly onPanel: (panel: PanelName) => void;
}

function Opener({ name, icon, label, shortcut, panel, onPanel }: OpenerProps) {
  return (
    <IconButton icon={icon} label={label} shortcut={shortcut} expanded={panel === name} onClick={() => onPanel(name)} />
  );
}

function TimeLeft({ state }: { readonly state: AgentState }) {
  const now = useNow(epoch, 500, state.session.expiresAtEpoch !== null);
  const left = timeLeft(state, now);
  if (left === null) return null;
  return (
    <p class="time-left" data-short={left < 60_000}>
      <Icon name="clock" />
      <span class="sr-only">The session ends in </span>
      {clock(left)}
      <span class="wide"> left</span>
    </p>
  );
}

/** The orb, small: a sphere of chords. */
function Mark() {
  return (
    <svg
      class="mark"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      aria-hidden="true"
    >
      <path d="M8.5 3.5h7M5 7.75c3-1.7 5 1.7 7 0s4-1.7 7 0M3.5 12c3.5-2.6 5.5 2.6 8.5 0s5-2.6 8.5 0M5 16.25c3-1.7 5 1.7 7 0s4-1.7 7 0M8.5 20.5h7" />
    </svg>
  );
}
