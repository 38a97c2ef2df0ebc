/** One family: a grid of 24, round strokes of 1.75, drawn for this page. */

import type { ComponentChildren } from 'preact';

const DRAWN = {
  mic: (
    <>
      <rect x="8.75" y="3" width="6.5" height="11" rx="3.25" />
      <path d="M5.5 11.5a6.5 6.5 0 0 0 13 0M12 18v3" />
    </>
  ),
  'mic-off': (
    <>
      <path d="M15.25 10.5V6.25a3.25 3.25 0 0 0-6.2-1.4M8.75 9v1.75a3.25 3.25 0 0 0 4.6 2.96" />
      <path d="M5.5 11.5a6.5 6.5 0 0 0 10.4 5.2M18.5 11.5a6.5 6.5 0 0 1-.5 2.5M12 18v3M4 4l16 16" />
    </>
  ),
  stop: <rect x="6" y="6" width="12" height="12" rx="2.5" fill="currentColor" />,
  send: <path d="M12 19V5.5M6 11.25 12 5.25l6 6" />,
  'hang-up': (
    <path d="M3.2 14.2c-.5-1 .1-2.5 1.5-3.6 4.1-3 10.5-3 14.6 0 1.4 1.1 2 2.6 1.5 3.6l-.6 1.2c-.3.6-1 .8-1.6.6l-2.9-1a1.4 1.4 0 0 1-.9-1.3v-1.5a11 11 0 0 0-5.6 0v1.5c0 .6-.4 1.1-.9 1.3l-2.9 1c-.6.2-1.3 0-1.6-.6Z" />
  ),
  sliders: (
    <>
      <path d="M4 7.5h8.5M17.5 7.5H20M4 16.5h2.5M11.5 16.5H20" />
      <circle cx="15" cy="7.5" r="2.5" />
      <circle cx="9" cy="16.5" r="2.5" />
    </>
  ),
  log: <path d="M9 6.5h11M9 12h11M9 17.5h7M4.5 6.5h.01M4.5 12h.01M4.5 17.5h.01" />,
  gauge: (
    <>
      <path d="M5.2 18a8.75 8.75 0 1 1 13.6 0" />
      <path d="m12 13.5 3.6-4.4" />
      <circle cx="12" cy="13.75" r="1" />
    </>
  ),
  record: (
    <>
      <circle cx="12" cy="12" r="8.5" />
      <circle cx="12" cy="12" r="3.25" fill="currentColor" />
    </>
  ),
  help: (
    <>
      <circle cx="12" cy="12" r="8.75" />
      <path d="M9.6 9.4a2.5 2.5 0 1 1 3.5 2.4c-.7.4-1.1.9-1.1 1.8M12 16.6h.01" />
    </>
  ),
  close: <path d="m6 6 12 12M18 6 6 18" />,
  copy: (
    <>
      <rect x="8.5" y="8.5" width="11.5" height="11.5" rx="2.5" />
      <path d="M15.5 8.5V6.25A2.25 2.25 0 0 0 13.25 4h-7A2.25 2.25 0 0 0 4 6.25v7a2.25 2.25 0 0 0 2.25 2.25H8.5" />
    </>
  ),
  download: <path d="M12 4v11M7 10.5l5 5 5-5M5 20h14" />,
  down: <path d="m6 9.5 6 6 6-6" />,
  alert: (
    <path d="M12 8.5v4.5M12 16.5h.01M10.4 4.4 2.9 17.2A1.9 1.9 0 0 0 4.5 20h15a1.9 1.9 0 0 0 1.6-2.8L13.6 4.4a1.85 1.85 0 0 0-3.2 0Z" />
  ),
  trash: (
    <path d="M4.5 7h15M9.5 7V4.75h5V7M6.5 7l.8 11.2A2 2 0 0 0 9.3 20h5.4a2 2 0 0 0 2-1.8L17.5 7M10.5 11v5M13.5 11v5" />
  ),
  tool: (
    <path d="M14.6 6.4a4.25 4.25 0 0 1 5-1.1l-2.7 2.7.6 2 2 .6 1.3-1.3a4.25 4.25 0 0 1-5.6 4.6L9.3 19.8a2.1 2.1 0 0 1-3-3l5.9-5.9a4.25 4.25 0 0 1 2.4-4.5Z" />
  ),
  clock: (
    <>
      <circle cx="12" cy="12" r="8.5" />
      <path d="M12 7.5V12l3 2" />
    </>
  ),
} as const satisfies Record<string, ComponentChildren>;

export type IconName = keyof typeof DRAWN;

export function Icon({ name }: { readonly name: IconName }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="1.75"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {DRAWN[name]}
    </svg>
  );
}
