import type { Ref, TargetedPointerEvent } from 'preact';
import { useRef, useState } from 'preact/hooks';
import type { Agent, AgentState } from '../engine/api';
import { IconButton } from './controls';
import { useFrames } from './hooks';
import { Icon } from './icons';
import { loudness } from './orb/moods';

interface DockProps {
  readonly agent: Agent;
  readonly state: AgentState;
  readonly textBox: Ref<HTMLTextAreaElement>;
  readonly onSend: (text: string) => void;
  readonly onMicrophone: () => void;
  readonly onEnd: () => void;
}

/** The controls of a conversation. */
export function Dock({ agent, state, textBox, onSend, onMicrophone, onEnd }: DockProps) {
  const live = state.connection.phase === 'live';
  const manual = state.settings.turnDetection.type === 'none';
  const speakable = state.microphone.status === 'on';
  return (
    <div class="dock" role="group" aria-label="Controls">
      {speakable && manual && <HoldToTalk agent={agent} held={state.microphone.held} />}
      <Composer textBox={textBox} onSend={onSend} />
      <div class="dock-buttons">
        {speakable ? (
          <MuteButton agent={agent} state={state} />
        ) : (
          <button type="button" class="button" onClick={onMicrophone} disabled={!live}>
            <Icon name="mic" /> Use microphone
          </button>
        )}
        <IconButton
          class="stop"
          icon="stop"
          label="Stop the answer"
          shortcut="Esc"
          disabled={state.activity !== 'speaking' && state.activity !== 'thinking'}
          onClick={() => agent.interrupt()}
        />
        <button type="button" class="button end" onClick={onEnd}>
          <Icon name="hang-up" /> End
        </button>
      </div>
    </div>
  );
}

function MuteButton({ agent, state }: { readonly agent: Agent; readonly state: AgentState }) {
  const button = useRef<HTMLButtonElement>(null);
  const { muted, vad } = state.microphone;
  useFrames(!muted, () => {
    button.current?.style.setProperty('--level', loudness(agent.levels.microphone).toFixed(2));
  });
  return (
    <button
      ref={button}
      type="button"
      class="mute"
      data-vad={vad}
      data-muted={muted}
      aria-label={muted ? 'Muted: unmute microphone' : 'Mute microphone'}
      title={`${muted ? 'Unmute' : 'Mute'} (M)`}
      onClick={() => agent.setMuted(!muted)}
    >
      <span class="meter" aria-hidden="true" />
      <Icon name={muted ? 'mic-off' : 'mic'} />
      <span class="mute-label">{muted ? 'Muted' : 'Mute'}</span>
    </button>
  );
}

/** Held down with a finger, the pointer, the space bar or Enter. */
function HoldToTalk({ agent, held }: { readonly agent: Agent; readonly held: boolean }) {
  const down = (event: TargetedPointerEvent<HTMLButtonElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    agent.pushToTalk(true);
  };
  const up = () => agent.pushToTalk(false);
  const key = (isDown: boolean) => (event: KeyboardEvent) => {
    if (event.key !== ' ' && event.key !== 'Enter') return;
    event.preventDefault();
    if (!event.repeat) agent.pushToTalk(isDown);
  };
  return (
    <button
      type="button"
      class="button hold"
      aria-pressed={held}
      onPointerDown={down}
      onPointerUp={up}
      onPointerCancel={up}
      onKeyDown={key(true)}
      onKeyUp={key(false)}
      onBlur={up}
      // A long press on a phone would open a menu in the middle of a sentence.
      onContextMenu={(event) => event.preventDefault()}
    >
      <Icon name="mic" /> {held ? 'Let go to send' : 'Hold to talk'}
    </button>
  );
}

interface ComposerProps {
  readonly textBox: Ref<HTMLTextAreaElement>;
  readonly onSend: (text: string) => void;
}

/** The text box. Enter sends, Shift and Enter begins a line. */
export function Composer({ textBox, onSend }: ComposerProps) {
  const [text, setText] = useState('');
  const send = () => {
    const words = text.trim();
    if (words === '') return;
    onSend(words);
    setText('');
  };
  const pressed = (event: KeyboardEvent) => {
    // Enter also ends the composition of Chinese, Japanese and Korean words.
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  };
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      <textarea
        ref={textBox}
        rows={1}
        aria-label="Message"
        placeholder="Type a message"
        enterkeyhint="send"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={pressed}
      />
      <button
        type="submit"
        class="icon-button send"
        aria-label="Send"
        title="Send (Enter)"
        disabled={text.trim() === ''}
      >
        <Icon name="send" />
      </button>
    </form>
  );
}
