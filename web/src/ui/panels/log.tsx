import type { ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Agent, LogEntry, LogFilter } from '../../engine/api';
import { Choice, IconButton, Switch } from '../controls';
import { copy, download } from '../files';
import { stamp, timeOfDay } from '../format';
import { Panel } from './panel';

/** So many rows are drawn; what is copied and saved is all that passes the filter. */
const SHOWN = 250;
const REFRESH_MS = 250;

type Direction = 'all' | LogEntry['direction'];
const ARROWS: Readonly<Record<LogEntry['direction'], readonly [string, string]>> = {
  in: ['↓', 'received'],
  out: ['↑', 'sent'],
  local: ['·', 'noted here'],
};

interface LogPanelProps {
  readonly agent: Agent;
  readonly onDone: (message: string) => void;
  readonly onClose: () => void;
}

/** The protocol's events, as they come and go. */
export function LogPanel({ agent, onDone, onClose }: LogPanelProps) {
  const [text, setText] = useState('');
  const [direction, setDirection] = useState<Direction>('all');
  const [withoutDeltas, setWithoutDeltas] = useState(true);
  const filter: LogFilter = { text, withoutDeltas, ...(direction === 'all' ? {} : { direction }) };
  useLogRefresh(agent);
  const entries = agent.log(filter);

  const copyAll = async () => {
    onDone((await copy(agent.exportLog(filter))) ? 'Events copied' : 'The clipboard isn’t available here');
  };
  const save = () => {
    const lines = new Blob([agent.exportLog(filter)], { type: 'application/x-ndjson' });
    download(`voice-omni-events-${stamp(Date.now())}.ndjson`, lines);
  };
  return (
    <Panel
      title="Event log"
      onClose={onClose}
      actions={
        <>
          <IconButton icon="copy" label="Copy events" onClick={copyAll} />
          <IconButton icon="download" label="Download events as NDJSON" onClick={save} />
          <IconButton icon="trash" label="Clear event log" onClick={() => agent.clearLog()} />
        </>
      }
    >
      <div class="log-filter">
        <input
          type="search"
          aria-label="Filter events"
          placeholder="Filter, e.g. response"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <Choice<Direction>
          label="Direction"
          value={direction}
          options={[
            ['all', 'All'],
            ['in', 'Received'],
            ['out', 'Sent'],
            ['local', 'Local'],
          ]}
          onChange={setDirection}
        />
        <Switch label="Hide what streams (deltas)" on={withoutDeltas} onChange={setWithoutDeltas} />
      </div>
      {entries.length === 0 ? (
        <p class="note">Nothing here yet.</p>
      ) : (
        <ol class="log">
          {entries
            .slice(-SHOWN)
            .reverse()
            .map((entry) => (
              <Row key={entry.number} entry={entry} />
            ))}
        </ol>
      )}
    </Panel>
  );
}

function Row({ entry }: { readonly entry: LogEntry }) {
  const [open, setOpen] = useState(false);
  const [arrow, meaning] = ARROWS[entry.direction];
  return (
    <li data-direction={entry.direction}>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span class="log-arrow" aria-hidden="true">
            {arrow}
          </span>
          <span class="sr-only">{meaning}</span>
          <span class="log-type">{breakable(entry.type)}</span>
          <time>{timeOfDay(entry.atEpoch)}</time>
        </summary>
        {open && <pre>{JSON.stringify(entry.payload, null, 2)}</pre>}
      </details>
    </li>
  );
}

/** A name that breaks after its dots and underscores. */
function breakable(type: string): ComponentChildren {
  return type.split(/(?<=[._])/).flatMap((part) => [part, <wbr key={part} />]);
}

/** Draws the component again when entries came, a few times a second at most. */
function useLogRefresh(agent: Agent): void {
  const [, refresh] = useState(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | null = null;
    const off = agent.on('log', () => {
      timer ??= setTimeout(() => {
        timer = null;
        refresh((count) => count + 1);
      }, REFRESH_MS);
    });
    return () => {
      off();
      if (timer !== null) clearTimeout(timer);
    };
  }, [agent]);
}
