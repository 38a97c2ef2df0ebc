import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Agent, TransportKind } from '../engine/api';
import { Announcer } from './announcer';
import { useConversation } from './conversation';
import { captionFor, noticeText, type Remedy } from './copy';
import { HelpDialog, KeyDialog } from './dialogs';
import { Dock } from './dock';
import { Ended } from './ended';
import { download } from './files';
import { stamp } from './format';
import { Header, type PanelName } from './header';
import { useAgentState, useMedia, useStable } from './hooks';
import { useKeyboard } from './keyboard';
import { InsightsPanel } from './panels/insights';
import { LogPanel } from './panels/log';
import { SettingsPanel } from './panels/settings';
import { CAPTION_SIZES, type Preferences } from './preferences';
import type { Command } from './shortcuts';
import { Stage } from './stage';
import { Toasts, useToasts } from './toasts';
import { Transcript, TranscriptButtons } from './transcript';
import { Trouble, troubleOf } from './trouble';
import { isStarting, screenOf } from './view';
import { Welcome } from './welcome';

/** Below this width a panel covers the stage. */
export const NARROW = '(max-width: 62rem)';

export interface AppProps {
  readonly agent: Agent;
  readonly preferences: Preferences;
  readonly apiKey: string | null;
  readonly onPreferences: (preferences: Preferences) => void;
  readonly onKey: (key: string | null) => void;
}

export function App({ agent, ...props }: AppProps) {
  const state = useAgentState(agent);
  const [preferences, setPreferences] = useState(props.preferences);
  const [apiKey, setApiKey] = useState(props.apiKey);
  const [panel, setPanel] = useState<PanelName | null>(null);
  const [dialog, setDialog] = useState<'help' | 'key' | null>(null);
  const [toasts, toast] = useToasts();
  const textBox = useRef<HTMLTextAreaElement>(null);
  const main = useRef<HTMLElement>(null);
  const covered = useMedia(NARROW) && panel !== null;
  const conversation = useConversation(agent, preferences.transport);

  const { phase } = state.connection;
  const screen = screenOf(state);
  const starting = isStarting(state.connection);
  const trouble = troubleOf(state.connection);
  const problem = trouble?.problem.code ?? null;

  useEffect(() => agent.on('notice', (notice) => toast(noticeText(notice))), [agent, toast]);
  // Before anything is drawn, so that no other theme flashes up.
  useLayoutEffect(() => {
    const { dataset } = document.documentElement;
    dataset['theme'] = preferences.theme;
    dataset['captions'] = preferences.captions;
  }, [preferences]);
  useEffect(() => {
    // The button that was pressed is gone; keys are for the stage now.
    if (phase === 'live' && document.activeElement === document.body) main.current?.focus({ preventScroll: true });
  }, [phase]);

  useEffect(() => {
    if (problem === 'unauthorized') setDialog('key');
  }, [problem]);

  const prefer = useStable((patch: Partial<Preferences>) => {
    const next = { ...preferences, ...patch };
    setPreferences(next);
    props.onPreferences(next);
  });
  const useTransport = useStable((transport: TransportKind) => {
    prefer({ transport });
    if (phase === 'live') conversation.reconnectBy(transport);
  });
  const toggle = useStable((name: PanelName) => setPanel((shown) => (shown === name ? null : name)));
  const closePanel = useStable(() => setPanel(null));
  const levels = useStable(() => agent.levels);

  const useKey = useStable((key: string | null) => {
    setDialog(null);
    setApiKey(key);
    props.onKey(key);
    agent.setApiKey(key);
    if (key !== null && problem === 'unauthorized') conversation.retry();
  });
  const type = useStable(() => {
    if (phase === 'live') textBox.current?.focus();
    else conversation.start(false);
  });
  const record = useStable(() => {
    if (!state.recording.active) return agent.startRecording();
    const sound = agent.stopRecording();
    if (sound) download(`voice-omni-${stamp(Date.now())}.wav`, sound);
  });
  const remedies: Readonly<Record<Remedy, () => void>> = {
    retry: conversation.retry,
    'start-again': conversation.retry,
    'use-websocket': () => {
      prefer({ transport: 'websocket' });
      conversation.reconnectBy('websocket');
    },
    'text-only': () => conversation.start(false),
    'enter-key': () => setDialog('key'),
    'choose-device': () => setPanel('settings'),
  };
  const largerCaptions = () => {
    const next = (CAPTION_SIZES.indexOf(preferences.captions) + 1) % CAPTION_SIZES.length;
    prefer({ captions: CAPTION_SIZES[next] ?? 'medium' });
  };
  const stop = () => {
    if (state.activity === 'speaking' || state.activity === 'thinking') agent.interrupt();
    else closePanel();
  };
  const commands: Readonly<Record<Exclude<Command, 'talk'>, () => void>> = {
    stop,
    mute: () => state.microphone.status === 'on' && agent.setMuted(!state.microphone.muted),
    type,
    settings: () => toggle('settings'),
    insights: () => toggle('insights'),
    log: () => toggle('log'),
    record: () => phase === 'live' && record(),
    captions: largerCaptions,
    help: () => setDialog('help'),
  };
  useKeyboard({
    enabled: dialog === null,
    letters: preferences.shortcuts,
    onTalk: (down) => phase === 'live' && agent.pushToTalk(down),
    onCommand: (command) => commands[command](),
  });

  return (
    <div
      class="app"
      data-screen={screen}
      data-empty={state.turns.length === 0}
      data-phase={phase}
      data-panel={panel ?? 'none'}
    >
      <Header state={state} panel={panel} onPanel={toggle} onRecord={record} onHelp={() => setDialog('help')} />
      <main ref={main} tabIndex={-1} inert={covered}>
        <Stage state={state} levels={levels} onInsights={() => setPanel('insights')} />
        {state.turns.length > 0 && <TranscriptButtons agent={agent} onDone={toast} />}
        {screen === 'conversation' && <Transcript turns={state.turns} />}
        {trouble && (
          <Trouble {...trouble} onRemedy={(remedy) => remedies[remedy]()} onGiveUp={() => agent.disconnect()} />
        )}
        {screen === 'welcome' && !trouble && (
          <Welcome
            starting={starting}
            onStart={() => conversation.start(true)}
            onType={type}
            onIdea={conversation.say}
            onCancel={() => agent.disconnect()}
          />
        )}
        {phase === 'live' && (
          <Dock
            agent={agent}
            state={state}
            textBox={textBox}
            onSend={conversation.say}
            onMicrophone={() => conversation.start(true)}
            onEnd={() => agent.disconnect()}
          />
        )}
        {phase === 'closed' && screen === 'conversation' && <Ended conversation={conversation} />}
      </main>
      {panel === 'settings' && (
        <SettingsPanel
          agent={agent}
          state={state}
          preferences={preferences}
          hasKey={apiKey !== null}
          onPreferences={prefer}
          onTransport={useTransport}
          onKey={() => setDialog('key')}
          onClose={closePanel}
        />
      )}
      {panel === 'insights' && <InsightsPanel state={state} onClose={closePanel} />}
      {panel === 'log' && <LogPanel agent={agent} onDone={toast} onClose={closePanel} />}
      {dialog === 'help' && <HelpDialog letters={preferences.shortcuts} onClose={() => setDialog(null)} />}
      {dialog === 'key' && (
        <KeyDialog
          refused={apiKey !== null && problem === 'unauthorized'}
          hasKey={apiKey !== null}
          onKey={useKey}
          onClose={() => setDialog(null)}
        />
      )}
      <Toasts toasts={toasts} />
      <Announcer turns={state.turns} status={captionFor(state, false).label} />
    </div>
  );
}
