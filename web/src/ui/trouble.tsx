import type { ConnectionState, Occupancy, Problem } from '../engine/api';
import { adviceFor, REMEDY_LABELS, type Remedy } from './copy';
import { useNow } from './hooks';
import { Icon } from './icons';
import { secondsUntil } from './view';

interface TroubleProps {
  readonly problem: Problem;
  readonly occupancy: Occupancy | null;
  /** Whether it is being tried again by itself. */
  readonly retrying: { readonly attempt: number; readonly attempts: number; readonly retryAt: number } | null;
  /** What is on offer besides the problem's own remedies. */
  readonly onRemedy: (remedy: Remedy) => void;
  readonly onGiveUp: () => void;
}

/** What went wrong, and the way out. */
export function Trouble({ problem, occupancy, retrying, onRemedy, onGiveUp }: TroubleProps) {
  const { title, text, remedies } = adviceFor(problem, occupancy);
  return (
    <section class="trouble">
      <Icon name="alert" />
      <div>
        <div role="alert">
          <h2>{title}</h2>
          <p>{text}</p>
        </div>
        {retrying && <Countdown {...retrying} />}
        <div class="row start">
          {retrying ? (
            <>
              <button type="button" class="button primary" onClick={() => onRemedy('retry')}>
                Try now
              </button>
              <button type="button" class="button quiet" onClick={onGiveUp}>
                Give up
              </button>
            </>
          ) : (
            remedies.map((remedy, index) => (
              <button
                key={remedy}
                type="button"
                class={`button ${index === 0 ? 'primary' : 'quiet'}`}
                onClick={() => onRemedy(remedy)}
              >
                {REMEDY_LABELS[remedy]}
              </button>
            ))
          )}
        </div>
        {problem.detail && (
          <details class="why">
            <summary>Details</summary>
            <p>
              <code>{problem.code}</code> {problem.detail}
            </p>
          </details>
        )}
      </div>
    </section>
  );
}

interface CountdownProps {
  readonly attempt: number;
  readonly attempts: number;
  readonly retryAt: number;
}

const monotonic = () => performance.now();

function Countdown({ attempt, attempts, retryAt }: CountdownProps) {
  const left = secondsUntil(retryAt, useNow(monotonic, 250, true));
  return (
    <p class="attempt">
      {left > 0 ? `Trying again in ${left} s` : 'Trying again'} · attempt {attempt} of {attempts}
    </p>
  );
}

/** The problem that a connection has, if it has one. */
export function troubleOf(connection: ConnectionState): Omit<TroubleProps, 'onRemedy' | 'onGiveUp'> | null {
  switch (connection.phase) {
    case 'error':
      return { problem: connection.problem, occupancy: connection.occupancy, retrying: null };
    case 'reconnecting':
      return {
        problem: connection.problem,
        occupancy: connection.occupancy,
        retrying: { attempt: connection.attempt, attempts: connection.attempts, retryAt: connection.retryAt },
      };
    default:
      return null;
  }
}
