import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Agent, AssistantTurn, ToolCall, Turn, UserTurn } from '../engine/api';
import { IconButton } from './controls';
import { copy, download } from './files';
import { seconds, stamp } from './format';
import { Icon } from './icons';

/** So near to the end, in CSS pixels, counts as reading along. */
const AT_END = 48;

/** The conversation as captions. Follows what is said unless somebody reads further up. */
export function Transcript({ turns }: { readonly turns: readonly Turn[] }) {
  const box = useRef<HTMLElement>(null);
  const [following, setFollowing] = useState(true);

  useLayoutEffect(() => {
    const element = box.current;
    if (element && following) element.scrollTop = element.scrollHeight;
  });
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    // The room changes when a panel opens or a phone turns.
    const resized = new ResizeObserver(() => {
      if (following) element.scrollTop = element.scrollHeight;
    });
    resized.observe(element);
    return () => resized.disconnect();
  }, [following]);

  const scrolled = () => {
    const element = box.current;
    if (element) setFollowing(element.scrollHeight - element.scrollTop - element.clientHeight < AT_END);
  };
  return (
    <div class="transcript-frame">
      <section
        class="transcript"
        ref={box}
        aria-label="Conversation"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
        tabIndex={0}
        onScroll={scrolled}
      >
        <ol>
          {turns.map((turn) => (
            <li key={turn.id} class={`turn ${turn.kind}`}>
              <TurnView turn={turn} />
            </li>
          ))}
        </ol>
      </section>
      {!following && (
        <button type="button" class="button jump" onClick={() => setFollowing(true)}>
          <Icon name="down" /> Latest
        </button>
      )}
    </div>
  );
}

interface TranscriptButtonsProps {
  readonly agent: Agent;
  /** Told what was done, for people. */
  readonly onDone: (message: string) => void;
}

/** Copy and download of what was said. */
export function TranscriptButtons({ agent, onDone }: TranscriptButtonsProps) {
  const copyText = async () => {
    onDone((await copy(agent.exportTranscript())) ? 'Transcript copied' : 'The clipboard isn’t available here');
  };
  const save = () => {
    const text = new Blob([agent.exportTranscript()], { type: 'text/plain' });
    download(`voice-omni-transcript-${stamp(Date.now())}.txt`, text);
  };
  return (
    <div class="transcript-buttons">
      <IconButton icon="copy" label="Copy transcript" onClick={copyText} />
      <IconButton icon="download" label="Download transcript" onClick={save} />
    </div>
  );
}

function TurnView({ turn }: { readonly turn: Turn }) {
  switch (turn.kind) {
    case 'user':
      return <UserView turn={turn} />;
    case 'assistant':
      return <AssistantView turn={turn} />;
    case 'tool':
      return <ToolView turn={turn} />;
  }
}

function UserView({ turn }: { readonly turn: UserTurn }) {
  return (
    <>
      <span class="who">You</span>
      <p class="said" data-status={turn.status}>
        {turn.text}
        {(turn.status === 'speaking' || turn.status === 'transcribing') && <Dots label="still listening" />}
        {turn.status === 'untranscribed' && <span class="tag">no words heard</span>}
      </p>
    </>
  );
}

function AssistantView({ turn }: { readonly turn: AssistantTurn }) {
  const lost = turn.interrupted && turn.unheard !== '';
  // Text that nobody hears has nothing to keep in step with.
  const shown = turn.spoken ? turn.heard : turn.heard + turn.unheard;
  return (
    <>
      <span class="who">Assistant</span>
      <div class="said">
        <p>
          {turn.interrupted ? turn.heard : shown}
          {turn.status === 'live' && shown === '' && <Dots label="answering" />}
          {lost && (
            <>
              <span class="sr-only"> (not heard: </span>
              <s class="unheard">{turn.unheard}</s>
              <span class="sr-only">)</span>
            </>
          )}
        </p>
        <AssistantTags turn={turn} />
      </div>
    </>
  );
}

function AssistantTags({ turn }: { readonly turn: AssistantTurn }) {
  if (!turn.interrupted && turn.status !== 'failed' && turn.latencyMs === null) return null;
  return (
    <p class="tags">
      {turn.interrupted && <span class="tag">interrupted</span>}
      {turn.status === 'failed' && (
        <span class="tag failed">
          <Icon name="alert" /> failed
        </span>
      )}
      {turn.latencyMs !== null && (
        <span class="latency" title="From your last word to the first sound">
          <span class="sr-only">answered after </span>
          {seconds(turn.latencyMs)}
        </span>
      )}
    </p>
  );
}

const TOOL_STATES: Readonly<Record<ToolCall['status'], string>> = {
  writing: 'preparing',
  running: 'running',
  done: 'done',
  failed: 'failed',
};

function ToolView({ turn }: { readonly turn: ToolCall }) {
  return (
    <>
      <span class="who">Tool</span>
      <details class="said">
        <summary>
          <Icon name="tool" /> {turn.name} <span class="tag">{TOOL_STATES[turn.status]}</span>
        </summary>
        <pre>{turn.arguments}</pre>
        {turn.output !== null && <pre>{turn.output}</pre>}
      </details>
    </>
  );
}

function Dots({ label }: { readonly label: string }) {
  return (
    <span class="dots">
      <span class="sr-only">{label}</span>
      <i aria-hidden="true" />
      <i aria-hidden="true" />
      <i aria-hidden="true" />
    </span>
  );
}
