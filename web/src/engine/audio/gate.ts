/** What of the microphone's sound is sent. */

export interface GateState {
  /** Whether turns are made by holding a key, and not by voice activity. */
  readonly pushToTalk: boolean;
  readonly muted: boolean;
  readonly held: boolean;
}

/** Chunks before the key went down that are sent with it: people begin to speak while they press. */
const PRE_ROLL_CHUNKS = 10;

export interface Timed {
  readonly pcm: Int16Array<ArrayBuffer>;
  /** When it was captured. */
  readonly moment: number;
}

/** Whether the person can be heard. */
export function isOpen(state: GateState): boolean {
  return state.held || (!state.pushToTalk && !state.muted);
}

export class Gate {
  #before: Timed[] = [];

  /** The chunks to send for the next one. Muted, it is silence: the server's time goes on, and turns end. */
  pass(chunk: Timed, state: GateState): readonly Timed[] {
    if (isOpen(state)) {
      const before = this.#before;
      this.#before = [];
      return [...before, chunk];
    }
    if (state.pushToTalk) {
      this.#before = [...this.#before.slice(1 - PRE_ROLL_CHUNKS), chunk];
      return [];
    }
    return [{ pcm: new Int16Array(chunk.pcm.length), moment: chunk.moment }];
  }

  forget(): void {
    this.#before = [];
  }
}

interface Mark {
  readonly ms: number;
  readonly moment: number;
}

/** A drift of the sound against the wall clock that is worth a mark of its own. */
const TOLERANCE_MS = 5;
const MOST_MARKS = 1000;

/** When the person made the sound that the server speaks of: it counts milliseconds of what it was sent. */
export class SentClock {
  readonly #rate: number;
  #samples = 0;
  #marks: Mark[] = [];

  /** `rate`: Hz, of the samples that are counted. */
  constructor(rate: number) {
    this.#rate = rate;
  }

  /** So many samples are sent that were captured from `moment` on. */
  sent(samples: number, moment: number): void {
    const ms = (this.#samples * 1000) / this.#rate;
    const expected = this.momentOf(ms);
    if (expected === null || Math.abs(moment - expected) > TOLERANCE_MS) {
      this.#marks = [...this.#marks.slice(1 - MOST_MARKS), { ms, moment }];
    }
    this.#samples += samples;
  }

  /** null: nothing was sent yet. */
  momentOf(ms: number): number | null {
    const mark = this.#marks.findLast((one) => one.ms <= ms) ?? this.#marks[0];
    return mark === undefined ? null : mark.moment + ms - mark.ms;
  }
}
