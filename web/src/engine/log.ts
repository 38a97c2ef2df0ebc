/** What went over the wire, for people who look for a fault. */

import type { LogEntry, LogFilter } from './api';

const MOST = 5000;

export class EventLog {
  #entries: LogEntry[] = [];
  #number = 0;

  add(
    direction: LogEntry['direction'],
    type: string,
    payload: Readonly<Record<string, unknown>>,
    atEpoch: number,
  ): LogEntry {
    const entry = { number: ++this.#number, atEpoch, direction, type, payload };
    this.#entries.push(entry);
    // Cut in bulk: dropping the oldest of thousands one by one would move all of them each time.
    if (this.#entries.length > MOST * 1.2) this.#entries = this.#entries.slice(-MOST);
    return entry;
  }

  select(filter: LogFilter = {}): readonly LogEntry[] {
    return this.#entries.slice(-MOST).filter((entry) => matches(entry, filter));
  }

  ndjson(filter: LogFilter = {}): string {
    return this.select(filter)
      .map((entry) => `${JSON.stringify(entry)}\n`)
      .join('');
  }

  clear(): void {
    this.#entries = [];
  }
}

export function matches(entry: LogEntry, filter: LogFilter): boolean {
  if (filter.direction !== undefined && entry.direction !== filter.direction) return false;
  if (filter.withoutDeltas === true && entry.type.endsWith('.delta')) return false;
  const text = filter.text?.toLowerCase() ?? '';
  return text === '' || `${entry.type} ${JSON.stringify(entry.payload)}`.toLowerCase().includes(text);
}
