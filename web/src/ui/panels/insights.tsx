import type { AgentState, LatencyReport, LatencyTurn } from '../../engine/api';
import { BASIS } from '../copy';
import { bytes, milliseconds, percent, seconds } from '../format';
import { Panel } from './panel';

interface InsightsPanelProps {
  readonly state: AgentState;
  readonly onClose: () => void;
}

/** How fast the answers come, and how the connection is doing. */
export function InsightsPanel({ state, onClose }: InsightsPanelProps) {
  return (
    <Panel title="Timings" onClose={onClose}>
      <Answers latency={state.latency} />
      <Line state={state} />
      <Session state={state} />
    </Panel>
  );
}

function Answers({ latency }: { readonly latency: LatencyReport }) {
  return (
    <section>
      <h3>From your last word to the first sound</h3>
      <dl class="figures">
        <Figure name="Last answer" value={seconds(latency.last)} />
        <Figure name="Median" value={seconds(latency.median)} />
        <Figure name="Stops when interrupted" value={milliseconds(latency.bargeInStop)} />
      </dl>
      {latency.turns.length === 0 ? (
        <p class="note">Each answer gets a bar here.</p>
      ) : (
        <Bars turns={latency.turns.slice(-12)} median={latency.median} />
      )}
    </section>
  );
}

function Figure({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function Bars({ turns, median }: { readonly turns: readonly LatencyTurn[]; readonly median: number | null }) {
  const longest = Math.max(...turns.map(({ ms }) => ms), median ?? 0, 1);
  const basis = turns.at(-1)?.basis;
  return (
    <>
      <ol class="bars">
        {turns.map((turn) => (
          <li key={turn.responseId} title={BASIS[turn.basis]}>
            <span class="bar" style={{ inlineSize: `${(100 * turn.ms) / longest}%` }} />
            <span class="bar-value">{seconds(turn.ms)}</span>
          </li>
        ))}
      </ol>
      {basis && <p class="note">{BASIS[basis]}.</p>}
    </>
  );
}

function Line({ state }: { readonly state: AgentState }) {
  const { network, playback, connection } = state;
  const rtc = 'transport' in connection && connection.transport === 'webrtc';
  return (
    <section>
      <h3>Connection</h3>
      <dl class="facts">
        <Fact name="Round trip" value={milliseconds(network.rttMs)} />
        {rtc && <Fact name="Jitter" value={milliseconds(network.jitterMs)} />}
        {rtc && <Fact name="Packets lost" value={percent(network.lossRate)} />}
        <Fact name="Sound buffered" value={milliseconds(playback.bufferedMs)} />
        <Fact name={rtc ? 'Gaps concealed' : 'Gaps in playback'} value={String(playback.underruns)} />
        <Fact name="Sent" value={bytes(network.bytesSent)} />
        <Fact name="Received" value={bytes(network.bytesReceived)} />
      </dl>
    </section>
  );
}

function Session({ state }: { readonly state: AgentState }) {
  const { session, connection } = state;
  const transport =
    'transport' in connection ? { websocket: 'WebSocket', webrtc: 'WebRTC' }[connection.transport] : '–';
  return (
    <section>
      <h3>Session</h3>
      <dl class="facts">
        <Fact name="Model" value={session.model ?? '–'} />
        <Fact name="Voice" value={session.voice ?? '–'} />
        <Fact name="Transport" value={transport} />
        <Fact name="Session" value={session.id ?? '–'} />
      </dl>
    </section>
  );
}

function Fact({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}
