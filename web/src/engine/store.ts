/** One immutable snapshot of the state, and who wants to know when it changes. */

import type { AgentEvents, AgentState } from './api';

type Listeners = { [K in keyof AgentEvents]: Set<(event: AgentEvents[K]) => void> };

export class Store {
  #state: AgentState;
  #told = true;
  readonly #listeners: Listeners = { state: new Set(), notice: new Set(), log: new Set() };

  constructor(state: AgentState) {
    this.#state = state;
  }

  get state(): AgentState {
    return this.#state;
  }

  /** Parts that are given are replaced; listeners hear of all changes of a task at its end. */
  set(parts: Partial<AgentState>): void {
    this.#state = { ...this.#state, ...parts };
    if (!this.#told) return;
    this.#told = false;
    queueMicrotask(() => {
      this.#told = true;
      this.emit('state', this.#state);
    });
  }

  /** Fields of one part are replaced; nothing happens if they are what they were. */
  patch<K extends 'microphone' | 'network' | 'playback' | 'session' | 'devices' | 'recording'>(
    part: K,
    fields: Partial<AgentState[K]>,
  ): void {
    const before = this.#state[part];
    const after = { ...before, ...fields };
    const names = Object.keys(fields) as (keyof AgentState[K])[];
    if (names.some((name) => after[name] !== before[name])) this.set({ [part]: after } as Pick<AgentState, K>);
  }

  on<K extends keyof AgentEvents>(kind: K, listener: (event: AgentEvents[K]) => void): () => void {
    this.#listeners[kind].add(listener);
    return () => this.#listeners[kind].delete(listener);
  }

  emit<K extends keyof AgentEvents>(kind: K, event: AgentEvents[K]): void {
    for (const listener of this.#listeners[kind]) listener(event);
  }
}
