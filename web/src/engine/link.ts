/** One connection at a time: made, lost and made again, with a pause that the page can count down. */

import type { ConnectionState, Occupancy, Problem, TransportKind } from './api';
import type { Incoming, IncomingAudio } from './protocol/parse';
import { ATTEMPTS, type End, pauseBefore } from './reconnect';
import type { Transport, TransportEvents } from './transports/transport';

/** A connection that has lasted so long has worked: the next loss begins to count anew. */
const STABLE_MS = 10_000;

export interface LinkEvents {
  changed(state: ConnectionState): void;
  /** The server has greeted: the session can be used. Comes before the greeting as an `event`. */
  live(): void;
  /** A session is gone, or an attempt has failed. */
  lost(): void;
  event(incoming: Incoming): void;
  audio(audio: IncomingAudio): void;
  remote(stream: MediaStream): void;
}

export interface LinkParts {
  open(events: TransportEvents): Transport;
  /** How full the server is, for people who wait to get in. */
  occupancy(): Promise<Occupancy | null>;
  now(): number;
  random(): number;
}

export class Link {
  readonly kind: TransportKind;
  #settle: () => void = () => undefined;
  /** Resolved once live, or over. */
  readonly settled = new Promise<void>((resolve) => {
    this.#settle = resolve;
  });

  readonly #parts: LinkParts;
  readonly #events: LinkEvents;
  #transport: Transport | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #attempt = 1;
  #everLive = false;
  #liveSince: number | null = null;
  #over = false;

  constructor(kind: TransportKind, parts: LinkParts, events: LinkEvents) {
    this.kind = kind;
    this.#parts = parts;
    this.#events = events;
  }

  /** The connection, while it is live. */
  get transport(): Transport | null {
    return this.#liveSince === null ? null : this.#transport;
  }

  open(): void {
    this.#events.changed({ phase: 'connecting', transport: this.kind, attempt: this.#attempt });
    const current: { transport: Transport | null } = { transport: null };
    /** An event of a connection that was replaced meanwhile is nobody's. */
    const mine = <T>(handle: (value: T) => void) => {
      return (value: T) => {
        if (!this.#over && current.transport === this.#transport) handle(value);
      };
    };
    current.transport = this.#parts.open({
      event: mine((incoming) => this.#receive(incoming)),
      audio: mine((audio) => this.#events.audio(audio)),
      remote: mine((stream) => this.#events.remote(stream)),
      ended: mine((end) => this.#ended(end)),
    });
    this.#transport = current.transport;
  }

  retryNow(): void {
    if (this.#timer === undefined || this.#over) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.open();
  }

  /** For good. Nothing is told any more. */
  close(): void {
    if (this.#over) return;
    this.#over = true;
    clearTimeout(this.#timer);
    this.#liveSince = null;
    this.#transport?.close();
    this.#settle();
  }

  #receive(incoming: Incoming): void {
    if (this.#liveSince === null && incoming.event?.type === 'session.created') {
      this.#liveSince = this.#parts.now();
      this.#everLive = true;
      this.#events.changed({ phase: 'live', transport: this.kind, since: this.#liveSince });
      this.#events.live();
      this.#settle();
    }
    this.#events.event(incoming);
  }

  #ended(end: End): void {
    const since = this.#liveSince;
    this.#liveSince = null;
    this.#transport = null;
    if (since !== null && this.#parts.now() - since >= STABLE_MS) this.#attempt = 1;
    this.#events.lost();
    // A server that never answered is more likely not there, or somewhere else, than about to come.
    const hopeless = !this.#everLive && end.problem.code === 'server-unreachable';
    if (end.retry && !hopeless && this.#attempt <= ATTEMPTS) this.#wait(end.problem);
    else this.#fail(end.problem);
  }

  #wait(problem: Problem): void {
    const pause = pauseBefore(this.#attempt, this.#parts.random);
    const state: Extract<ConnectionState, { phase: 'reconnecting' }> = {
      phase: 'reconnecting',
      transport: this.kind,
      attempt: this.#attempt,
      attempts: ATTEMPTS,
      retryAt: this.#parts.now() + pause,
      problem,
      occupancy: null,
    };
    this.#attempt++;
    const timer = setTimeout(() => this.retryNow(), pause);
    this.#timer = timer;
    this.#events.changed(state);
    if (problem.code !== 'server-full') return;
    void this.#parts.occupancy().then((occupancy) => {
      if (this.#timer === timer && !this.#over) this.#events.changed({ ...state, occupancy });
    });
  }

  #fail(problem: Problem): void {
    this.#events.changed({ phase: 'error', problem, occupancy: null });
    this.close();
  }
}
