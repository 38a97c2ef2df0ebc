/** What the page says. One place, so that it speaks with one voice. */

import type { AgentState, LatencyTurn, Notice, Occupancy, Problem, ProblemCode } from '../engine/api';
import { isHeard } from './view';

/** What a person can do about a problem, in the order of the buttons. */
export type Remedy = 'retry' | 'start-again' | 'use-websocket' | 'text-only' | 'enter-key' | 'choose-device';

export interface Advice {
  readonly title: string;
  readonly text: string;
  readonly remedies: readonly Remedy[];
}

export const REMEDY_LABELS: Readonly<Record<Remedy, string>> = {
  retry: 'Try again',
  'start-again': 'Carry on talking',
  'use-websocket': 'Use WebSocket instead',
  'text-only': 'Type instead',
  'enter-key': 'Enter a key',
  'choose-device': 'Choose a microphone',
};

const ADVICE: Readonly<Record<ProblemCode, Advice>> = {
  'insecure-context': {
    title: 'This address can’t use your microphone',
    text: 'Browsers only allow it over https, or on this computer. Open the page with https:// or as localhost. You can still type.',
    remedies: ['text-only'],
  },
  'microphone-denied': {
    title: 'The microphone is blocked',
    text: 'Click the icon left of the address, allow the microphone for this page, then try again. On a phone, look in the browser’s site settings.',
    remedies: ['retry', 'text-only'],
  },
  'microphone-not-found': {
    title: 'No microphone found',
    text: 'Plug one in or switch your headset on, then try again.',
    remedies: ['retry', 'text-only'],
  },
  'microphone-in-use': {
    title: 'Another app has the microphone',
    text: 'Leave the other call or recorder, or choose another microphone, then try again.',
    remedies: ['retry', 'choose-device', 'text-only'],
  },
  'microphone-failed': {
    title: 'The microphone didn’t start',
    text: 'Unplug it and plug it in again, or choose another one.',
    remedies: ['retry', 'choose-device', 'text-only'],
  },
  'unsupported-browser': {
    title: 'This browser is too old for talking',
    text: 'A current Chrome, Edge, Firefox or Safari will do. You can still type here.',
    remedies: ['text-only'],
  },
  'server-unreachable': {
    title: 'Can’t reach the server',
    text: 'Check that it is running and that you are online, then try again.',
    remedies: ['retry'],
  },
  'server-full': {
    title: 'Everyone is talking right now',
    text: 'The server holds as many conversations as it can. A place usually opens soon.',
    remedies: ['retry'],
  },
  'server-starting': {
    title: 'The server is getting ready',
    text: 'It is still loading its models. That takes a few seconds, or longer the first time.',
    remedies: ['retry'],
  },
  unauthorized: {
    title: 'This server needs a key',
    text: 'Ask whoever runs it for one. It stays in this tab and is forgotten when you close it.',
    remedies: ['enter-key'],
  },
  'origin-not-allowed': {
    title: 'The server doesn’t trust this address',
    text: 'Open the page as localhost or by the server’s IP address, or ask whoever runs the server to add the address to server.allowed_origins.',
    remedies: ['retry'],
  },
  'session-expired': {
    title: 'Time’s up for this conversation',
    text: 'The server ends conversations after a while. Carry on and it will remember what was said.',
    remedies: ['start-again'],
  },
  'server-gone': {
    title: 'The server has gone away',
    text: 'It may be restarting. Try again in a moment; your conversation is kept here.',
    remedies: ['retry'],
  },
  'server-failed': {
    title: 'Something broke on the server',
    text: 'It wasn’t you. Try again; your conversation is kept here.',
    remedies: ['retry'],
  },
  'connection-lost': {
    title: 'The connection was lost',
    text: 'Check your network. Your conversation is kept here and goes on when you are back.',
    remedies: ['retry'],
  },
  'webrtc-unavailable': {
    title: 'WebRTC doesn’t work here',
    text: 'This server or network doesn’t offer it. WebSocket sounds just as good on most connections.',
    remedies: ['use-websocket', 'retry'],
  },
  'protocol-error': {
    title: 'The server answered in an unknown way',
    text: 'The page and the server may be of different versions. Reload the page, then try again.',
    remedies: ['retry'],
  },
};

/** What to tell a person about a problem. `occupancy`: of the server, if it said. */
export function adviceFor(problem: Problem, occupancy: Occupancy | null): Advice {
  const advice = ADVICE[problem.code];
  if (problem.code !== 'server-full' || occupancy === null) return advice;
  return { ...advice, text: `All ${occupancy.max} places are taken. One usually opens soon.` };
}

const NOTICES: Readonly<Record<Notice['code'], string>> = {
  'settings-refused': 'The server didn’t accept that setting.',
  'microphone-lost': 'The microphone went away. Plug it in again or choose another.',
  'microphone-switched': 'Switched to another microphone.',
  'speaker-failed': 'That speaker can’t be used. Sound stays where it was.',
  'response-failed': 'The answer failed. Ask again.',
  'too-short': 'That was too short to hear. Hold the key while you talk.',
  'server-error': 'The server reported a problem.',
};

export function noticeText(notice: Notice): string {
  return NOTICES[notice.code];
}

/** The line under the orb, and a quieter one that says what one can do. */
export interface Caption {
  readonly label: string;
  readonly hint: string;
}

/** What the orb means at the moment. `touch`: whether hints speak of fingers instead of keys. */
export function captionFor(state: AgentState, touch: boolean): Caption {
  const { connection } = state;
  switch (connection.phase) {
    case 'idle':
      return { label: '', hint: '' };
    case 'requesting-microphone':
      return { label: 'Waiting for the microphone', hint: 'Your browser asks whether this page may use it' };
    case 'connecting':
      return { label: 'Connecting', hint: '' };
    case 'closed':
      return { label: 'Conversation ended', hint: 'It stays here until you start over' };
    case 'error':
    case 'reconnecting':
      return { label: adviceFor(connection.problem, connection.occupancy).title, hint: '' };
    case 'live':
      return liveCaption(state, touch);
  }
}

function liveCaption(state: AgentState, touch: boolean): Caption {
  const { activity, microphone } = state;
  if (activity === 'thinking') return { label: 'Thinking', hint: '' };
  if (activity === 'speaking')
    return { label: 'Speaking', hint: `Talk to interrupt, or ${touch ? 'tap stop' : 'press Esc'}` };
  if (microphone.status === 'lost') {
    return { label: 'Microphone lost', hint: 'Plug it in again, choose another, or type' };
  }
  if (microphone.status !== 'on') return { label: 'Ready', hint: 'Type something below' };
  return isHeard(state) ? hearing(state) : deaf(state, touch);
}

function hearing({ microphone }: AgentState): Caption {
  if (microphone.held) return { label: 'Listening', hint: 'Let go when you’re done' };
  return microphone.vad === 'speech'
    ? { label: 'Hearing you', hint: '' }
    : { label: 'Listening', hint: 'Go ahead, say something' };
}

function deaf({ settings }: AgentState, touch: boolean): Caption {
  if (settings.turnDetection.type === 'none') {
    return {
      label: 'Hold to talk',
      hint: touch ? 'Hold the button while you speak' : 'Hold the space bar or the button',
    };
  }
  return { label: 'You’re muted', hint: touch ? 'Nobody hears you' : 'Hold the space bar to say something' };
}

/** What to try first. */
export const IDEAS: readonly string[] = [
  'What is the capital of France?',
  'Tell me a very short story about the sea.',
  'Interrupt me while I count to twenty.',
];

export const BASIS: Readonly<Record<LatencyTurn['basis'], string>> = {
  server: 'Measured by the server from the end of your speech',
  vad: 'From the end of your speech: the decision and the silence before it',
  release: 'From letting go of the key, or sending the text',
  decision: 'From the turn decision; the silence before it is not counted',
};
