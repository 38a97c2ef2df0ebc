import type { AgentState, Levels } from '../engine/api';
import { captionFor } from './copy';
import { seconds } from './format';
import { useMedia } from './hooks';
import { Orb } from './orb/orb';
import { moodOf } from './view';

interface StageProps {
  readonly state: AgentState;
  readonly levels: () => Levels;
  readonly onInsights: () => void;
}

/** The orb, and in words what it shows. */
export function Stage({ state, levels, onInsights }: StageProps) {
  const { latency } = state;
  const mood = moodOf(state);
  const touch = useMedia('(pointer: coarse)');
  const { label, hint } = captionFor(state, touch);
  return (
    <div class="stage">
      <Orb mood={mood} levels={levels} />
      <p class="stage-label">{label}</p>
      <p class="stage-hint">{hint}</p>
      {latency.median !== null && (
        <button type="button" class="latency-chip" onClick={onInsights} title="Timings (I)">
          <span>
            <span class="sr-only">Last answer after </span>
            {seconds(latency.last)}
          </span>
          <span class="quiet">median {seconds(latency.median)}</span>
        </button>
      )}
    </div>
  );
}
