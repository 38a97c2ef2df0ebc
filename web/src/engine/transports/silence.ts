/**
 * Whether the far end has gone without a word. A server sends a packet every 20 ms, also when it has nothing to say, so
 * that nothing at all means that it is gone, long before a browser calls the connection `disconnected` (Chrome: after
 * 7 s and more).
 */

/** How often to look. */
export const LOOK_MS = 500;
/** A network may change in the middle of a call, and comes back sooner. */
const SILENT_MS = 3500;
/** A machine that was asleep, or a page that was frozen, has not looked: time alone says nothing. */
const FEWEST_LOOKS = 4;

export class SilenceWatch {
  #received: number | null = null;
  #since = 0;
  #looks = 0;

  /** `received`: a count of what has come. `now`: milliseconds. Returns whether nothing has come for too long. */
  look(received: number, now: number): boolean {
    if (received !== this.#received) {
      this.#received = received;
      this.#since = now;
      this.#looks = 0;
      return false;
    }
    this.#looks++;
    return this.#looks >= FEWEST_LOOKS && now - this.#since >= SILENT_MS;
  }
}
