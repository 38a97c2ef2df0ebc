import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Agent, AgentState, Device, Eagerness, Settings, TransportKind, TurnDetection } from '../../engine/api';
import { Choice, Field, Select, Slider, Switch } from '../controls';
import { useStable } from '../hooks';
import { CAPTION_SIZES, type CaptionSize, type Preferences, THEMES, type Theme } from '../preferences';
import { Panel } from './panel';

interface SettingsPanelProps {
  readonly agent: Agent;
  readonly state: AgentState;
  readonly preferences: Preferences;
  readonly hasKey: boolean;
  readonly onPreferences: (patch: Partial<Preferences>) => void;
  readonly onTransport: (transport: TransportKind) => void;
  readonly onKey: () => void;
  readonly onClose: () => void;
}

export function SettingsPanel(props: SettingsPanelProps) {
  const { agent, state, onClose } = props;
  return (
    <Panel title="Settings" onClose={onClose}>
      <Conversation agent={agent} state={state} />
      <TurnTaking settings={state.settings} onChange={(turnDetection) => agent.updateSettings({ turnDetection })} />
      <Devices agent={agent} state={state} />
      <Appearance {...props} />
      <Connection {...props} />
    </Panel>
  );
}

const DEFAULT = '';
const LANGUAGES: readonly (readonly [string, string])[] = [
  [DEFAULT, 'Automatic'],
  ['ar', 'Arabic'],
  ['zh', 'Chinese'],
  ['nl', 'Dutch'],
  ['en', 'English'],
  ['fr', 'French'],
  ['de', 'German'],
  ['hi', 'Hindi'],
  ['it', 'Italian'],
  ['ja', 'Japanese'],
  ['ko', 'Korean'],
  ['pl', 'Polish'],
  ['pt', 'Portuguese'],
  ['ru', 'Russian'],
  ['es', 'Spanish'],
  ['tr', 'Turkish'],
];

function Conversation({ agent, state }: { readonly agent: Agent; readonly state: AgentState }) {
  const { settings, session } = state;
  const voices = session.voices.map((name) => [name, name] as const);
  const pending = session.pending.includes('voice');
  return (
    <section>
      <h3>Conversation</h3>
      <Select
        label="Voice"
        value={settings.voice ?? DEFAULT}
        options={[[DEFAULT, 'Default'], ...withChosen(voices, settings.voice)]}
        onChange={(voice) => agent.updateSettings({ voice: voice === DEFAULT ? null : voice })}
      />
      {pending && (
        <div class="pending" role="status">
          <p>A voice can’t change once it has spoken.</p>
          <button type="button" class="button quiet" onClick={() => void agent.restart()}>
            Restart with this voice
          </button>
        </div>
      )}
      <Instructions value={settings.instructions} onChange={(instructions) => agent.updateSettings({ instructions })} />
      <Select
        label="Your language"
        value={settings.language ?? DEFAULT}
        options={withChosen(LANGUAGES, settings.language)}
        onChange={(language) => agent.updateSettings({ language: language === DEFAULT ? null : language })}
      />
      <Slider
        label="Speaking speed"
        value={settings.speed}
        min={0.25}
        max={1.5}
        step={0.05}
        shown={(value) => `${value.toFixed(2)}×`}
        onChange={(speed) => agent.updateSettings({ speed })}
      />
      <Choice
        label="Answers"
        value={settings.output}
        options={[
          ['audio', 'Spoken'],
          ['text', 'Written'],
        ]}
        onChange={(output) => agent.updateSettings({ output })}
      />
    </section>
  );
}

/** What is chosen stays choosable, also where the list does not name it (yet). */
function withChosen(
  options: readonly (readonly [string, string])[],
  chosen: string | null,
): readonly (readonly [string, string])[] {
  return chosen === null || options.some(([name]) => name === chosen) ? options : [...options, [chosen, chosen]];
}

function Instructions({ value, onChange }: { readonly value: string; readonly onChange: (text: string) => void }) {
  const [draft, setDraft] = useState(value);
  // The value follows what was committed a moment later: leaving the field and closing the panel are one change.
  const committed = useRef(value);
  const commit = useStable(() => {
    if (draft === committed.current) return;
    committed.current = draft;
    onChange(draft);
  });
  // At once: after the next frame is late for somebody who writes and closes the panel before it.
  useLayoutEffect(() => {
    committed.current = value;
    setDraft(value);
  }, [value]);
  // Who closes the panel in the middle of writing has written all the same.
  useLayoutEffect(() => commit, [commit]);
  return (
    <Field label="Instructions" note="How the assistant should behave. Holds from the next answer on.">
      {({ id, describedBy }) => (
        <textarea
          id={id}
          rows={4}
          aria-describedby={describedBy}
          placeholder="For example: You are a patient chess teacher. Keep answers short."
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onBlur={commit}
        />
      )}
    </Field>
  );
}

const TURN_NOTES: Readonly<Record<TurnDetection['type'], string>> = {
  server_vad: 'You are answered after a short silence.',
  semantic_vad: 'You are answered when what you said sounds complete.',
  none: 'You are heard while you hold the space bar or the button.',
};

const TURN_STARTS: Readonly<Record<TurnDetection['type'], TurnDetection>> = {
  server_vad: { type: 'server_vad', threshold: 0.5, silenceMs: 500, prefixPaddingMs: 300 },
  semantic_vad: { type: 'semantic_vad', eagerness: 'auto' },
  none: { type: 'none' },
};

interface TurnTakingProps {
  readonly settings: Settings;
  readonly onChange: (turns: TurnDetection) => void;
}

function TurnTaking({ settings, onChange }: TurnTakingProps) {
  const turns = settings.turnDetection;
  return (
    <section>
      <h3>Taking turns</h3>
      <Choice
        label="Answer me"
        value={turns.type}
        options={[
          ['server_vad', 'After silence'],
          ['semantic_vad', 'When it makes sense'],
          ['none', 'Push to talk'],
        ]}
        note={TURN_NOTES[turns.type]}
        onChange={(type) => onChange(TURN_STARTS[type])}
      />
      {turns.type === 'server_vad' && (
        <>
          <Slider
            label="Threshold"
            note="Higher ignores more background noise."
            value={turns.threshold}
            min={0}
            max={1}
            step={0.05}
            shown={(value) => value.toFixed(2)}
            onChange={(threshold) => onChange({ ...turns, threshold })}
          />
          <Slider
            label="Silence"
            note="How long a pause has to be before you are answered."
            value={turns.silenceMs}
            min={200}
            max={2000}
            step={50}
            shown={(value) => `${value} ms`}
            onChange={(silenceMs) => onChange({ ...turns, silenceMs })}
          />
        </>
      )}
      {turns.type === 'semantic_vad' && (
        <Choice<Eagerness>
          label="Eagerness"
          value={turns.eagerness}
          options={[
            ['low', 'Low'],
            ['auto', 'Auto'],
            ['medium', 'Medium'],
            ['high', 'High'],
          ]}
          note="How soon an unfinished sentence is answered anyway."
          onChange={(eagerness) => onChange({ type: 'semantic_vad', eagerness })}
        />
      )}
    </section>
  );
}

function Devices({ agent, state }: { readonly agent: Agent; readonly state: AgentState }) {
  const { devices } = state;
  useEffect(() => {
    void agent.listDevices();
  }, [agent]);
  return (
    <section>
      <h3>Devices</h3>
      <Select
        label="Microphone"
        value={devices.microphone ?? DEFAULT}
        options={deviceOptions(devices.microphones, 'Microphone')}
        onChange={(id) => void agent.setMicrophone(id === DEFAULT ? null : id)}
      />
      <Select
        label="Speaker"
        value={devices.speaker ?? DEFAULT}
        options={deviceOptions(devices.speakers, 'Speaker')}
        disabled={!devices.canChooseSpeaker}
        note={devices.canChooseSpeaker ? undefined : 'This browser plays through the system’s speaker.'}
        onChange={(id) => void agent.setSpeaker(id === DEFAULT ? null : id)}
      />
    </section>
  );
}

function deviceOptions(devices: readonly Device[], kind: string): readonly (readonly [string, string])[] {
  const named = devices
    .filter(({ id }) => id !== DEFAULT && id !== 'default')
    .map(({ id, label }, index) => [id, label || `${kind} ${index + 1}`] as const);
  return [[DEFAULT, 'System default'], ...named];
}

const CAPTION_NAMES: Readonly<Record<CaptionSize, string>> = { small: 'S', medium: 'M', large: 'L', huge: 'XL' };
const THEME_NAMES: Readonly<Record<Theme, string>> = { auto: 'Auto', light: 'Light', dark: 'Dark' };

function Appearance({ preferences, onPreferences }: SettingsPanelProps) {
  return (
    <section>
      <h3>Look and keys</h3>
      <Choice
        label="Theme"
        value={preferences.theme}
        options={THEMES.map((theme) => [theme, THEME_NAMES[theme]] as const)}
        onChange={(theme) => onPreferences({ theme })}
      />
      <Choice
        label="Caption size"
        value={preferences.captions}
        options={CAPTION_SIZES.map((size) => [size, CAPTION_NAMES[size]] as const)}
        onChange={(captions) => onPreferences({ captions })}
      />
      <Switch
        label="Single-letter shortcuts"
        on={preferences.shortcuts}
        onChange={(shortcuts) => onPreferences({ shortcuts })}
      />
    </section>
  );
}

function Connection({ preferences, hasKey, onTransport, onKey }: SettingsPanelProps) {
  return (
    <section>
      <h3>Connection</h3>
      <Choice<TransportKind>
        label="Transport"
        value={preferences.transport}
        options={[
          ['websocket', 'WebSocket'],
          ['webrtc', 'WebRTC'],
        ]}
        note="WebRTC copes better with a shaky network. Switching keeps the conversation."
        onChange={onTransport}
      />
      <div class="row">
        <p>{hasKey ? 'A key is set for this tab.' : 'No key is set.'}</p>
        <button type="button" class="button quiet" onClick={onKey}>
          {hasKey ? 'Change key' : 'Enter a key'}
        </button>
      </div>
    </section>
  );
}
