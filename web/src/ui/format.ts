/** Numbers as people read them. */

/** `0.74 s`; null is a dash. */
export function seconds(ms: number | null): string {
  if (ms === null) return '–';
  return ms < 9950 ? `${(ms / 1000).toFixed(2)} s` : `${(ms / 1000).toFixed(1)} s`;
}

/** `48 ms`; null is a dash. */
export function milliseconds(ms: number | null): string {
  return ms === null ? '–' : `${Math.round(ms)} ms`;
}

/** `4:05`, `1:00:00`; never below zero. */
export function clock(ms: number): string {
  const total = Math.max(0, Math.ceil(ms / 1000));
  const parts = [Math.floor(total / 3600), Math.floor(total / 60) % 60, total % 60];
  const shown = parts[0] === 0 ? parts.slice(1) : parts;
  return shown.map((part, index) => (index === 0 ? String(part) : String(part).padStart(2, '0'))).join(':');
}

/** `0 %`, `1.3 %`; null is a dash. */
export function percent(share: number | null): string {
  if (share === null) return '–';
  return share === 0 ? '0 %' : `${(100 * share).toFixed(1)} %`;
}

/** `812 B`, `3.1 KB`, `2.4 MB`: thousands, as networks count. */
export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  if (count < 1e6) return `${(count / 1e3).toFixed(1)} KB`;
  return `${(count / 1e6).toFixed(1)} MB`;
}

/** `14:03:27.518`, local time. */
export function timeOfDay(epochMs: number): string {
  const date = new Date(epochMs);
  const two = (part: number) => String(part).padStart(2, '0');
  const fraction = String(date.getMilliseconds()).padStart(3, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${fraction}`;
}

/** For names of files: `2026-03-01-140327`, local time. */
export function stamp(epochMs: number): string {
  const date = new Date(epochMs);
  const two = (part: number) => String(part).padStart(2, '0');
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day}-${two(date.getHours())}${two(date.getMinutes())}${two(date.getSeconds())}`;
}
