/** From the end of speech to the first audible sample of the answer, and from an interruption to silence. */

import type { LatencyReport, LatencyTurn } from './api';

/** Turns that are remembered. */
const MOST = 200;
/** Quiet that is silence and not a pause between words. */
const SILENCE_MS = 100;

interface Waiting {
  readonly ended: number;
  readonly basis: LatencyTurn['basis'];
  /** When the server said that the turn was over; null if it did not decide that. */
  readonly decided: number | null;
}

interface Measured extends LatencyTurn {
  readonly audible: number;
  readonly decided: number | null;
}

/** All moments are milliseconds on one clock. */
export class LatencyTracker {
  #waiting: Waiting | null = null;
  #response: string | null = null;
  #turns: Measured[] = [];
  #onset: number | null = null;
  #quietSince = 0;
  #bargeInStop: number | null = null;
  #report: LatencyReport | null = null;

  /** Somebody has finished. `decided`: when the server said so, if it was the server. */
  turnEnded(ended: number, basis: LatencyTurn['basis'], decided: number | null = null): void {
    this.#waiting = { ended, basis, decided };
    this.#response = null;
  }

  /** They had not finished after all, or what they said was nothing. */
  turnResumed(): void {
    this.#waiting = null;
  }

  responseBegan(id: string): void {
    this.#response = id;
  }

  /** The person interrupts: sound should stop. */
  interrupted(onset: number, now: number): void {
    this.#onset = onset;
    this.#quietSince = now;
  }

  /**
   * A piece of the assistant's sound as it left the loudspeaker, until `end`. `loud`: the moments of its first and last
   * audible sample; null: it is quiet. Returns the response that was heard for the first time.
   */
  heard(end: number, loud: { first: number; last: number } | null): LatencyTurn | null {
    this.#awaitSilence(end, loud?.last ?? null);
    return loud === null ? null : this.#firstHeard(loud.first);
  }

  /** The server measured how long before its decision the speech of the turn had ended. Better than any guess. */
  corrected(responseId: string, silenceMs: number): LatencyTurn | null {
    const at = this.#turns.findIndex((turn) => turn.responseId === responseId);
    const turn = this.#turns[at];
    if (turn === undefined || turn.decided === null) return null;
    const better: Measured = { ...turn, ms: turn.audible - turn.decided + silenceMs, basis: 'server' };
    this.#turns = this.#turns.with(at, better);
    this.#report = null;
    return better;
  }

  /** The same object until something was measured. */
  report(): LatencyReport {
    this.#report ??= this.#summary();
    return this.#report;
  }

  #summary(): LatencyReport {
    const turns = this.#turns.map(({ responseId, ms, basis }) => ({ responseId, ms, basis }));
    return {
      turns,
      last: turns.at(-1)?.ms ?? null,
      median: median(turns.map(({ ms }) => ms)),
      bargeInStop: this.#bargeInStop,
    };
  }

  #firstHeard(at: number): LatencyTurn | null {
    const waiting = this.#waiting;
    if (waiting === null || this.#response === null || at < waiting.ended) return null;
    this.#waiting = null;
    const turn: Measured = {
      responseId: this.#response,
      ms: at - waiting.ended,
      basis: waiting.basis,
      audible: at,
      decided: waiting.decided,
    };
    this.#turns = [...this.#turns.slice(1 - MOST), turn];
    this.#report = null;
    return turn;
  }

  #awaitSilence(end: number, lastLoud: number | null): void {
    if (this.#onset === null) return;
    if (lastLoud !== null) this.#quietSince = Math.max(this.#quietSince, lastLoud);
    if (end - this.#quietSince < SILENCE_MS) return;
    this.#bargeInStop = this.#quietSince - this.#onset;
    this.#onset = null;
    this.#report = null;
  }
}

export function median(values: readonly number[]): number | null {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle];
  if (upper === undefined) return null;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2;
}
