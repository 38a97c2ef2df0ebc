/** Every state of the page that looks like something, by name: for pictures of them, and for what tests start from. */

import type { AgentState, AssistantTurn, LogEntry, ProblemCode, Turn, UserTurn } from '../../src/engine/api';
import type { PanelName } from '../../src/ui/header';
import { QUIET } from './scripted-agent';

export interface Scene {
  readonly state: AgentState;
  /** Loudness, as root mean square. */
  readonly microphone?: number;
  readonly assistant?: number;
  readonly panel?: PanelName;
  readonly dialog?: 'help';
  readonly notice?: true;
}

const NOW = 0;

function you(id: string, text: string, status: UserTurn['status'] = 'final'): UserTurn {
  return { kind: 'user', id, source: 'speech', text, status, at: NOW };
}

function answer(id: string, heard: string, more: Partial<AssistantTurn> = {}): AssistantTurn {
  return {
    kind: 'assistant',
    id,
    responseId: `resp_${id}`,
    heard,
    unheard: '',
    status: 'final',
    interrupted: false,
    spoken: true,
    latencyMs: 742,
    at: NOW,
    ...more,
  };
}

const BEGUN: readonly Turn[] = [
  you('u1', 'What is the capital of France?'),
  answer('a1', 'The capital of France is Paris.'),
  you('u2', 'And what is it famous for?'),
  answer('a2', 'For the Eiffel Tower, for its museums, and', {
    unheard: ' for bakeries on nearly every corner, whose smell you notice before you see them.',
    interrupted: true,
    latencyMs: 688,
  }),
];

const LIVE: AgentState = {
  ...QUIET,
  connection: { phase: 'live', transport: 'websocket', since: NOW },
  activity: 'listening',
  microphone: { status: 'on', muted: false, held: false, vad: 'quiet', problem: null },
  turns: BEGUN,
  latency: {
    turns: [742, 688, 1210, 731, 702].map((ms, index) => ({ responseId: `resp_${index}`, ms, basis: 'server' })),
    last: 702,
    median: 731,
    bargeInStop: 118,
  },
  network: { rttMs: 4, jitterMs: null, lossRate: null, bytesSent: 1_830_000, bytesReceived: 2_410_000 },
  playback: { playing: false, bufferedMs: 84, underruns: 0 },
  session: {
    id: 'sess_4f1c9a',
    model: 'starter',
    expiresAtEpoch: null,
    voices: ['default', 'joe'],
    voice: 'default',
    pending: [],
  },
  devices: {
    microphones: [
      { id: 'm1', label: 'Built-in microphone' },
      { id: 'm2', label: 'USB headset' },
    ],
    speakers: [{ id: 's1', label: 'Built-in speakers' }],
    microphone: 'm2',
    speaker: null,
    canChooseSpeaker: true,
  },
};

function failed(code: ProblemCode, turns: readonly Turn[] = []): Scene {
  const problem = { code, detail: 'WebSocket closed with 1006' };
  const occupancy = code === 'server-full' ? { current: 32, max: 32 } : null;
  return { state: { ...QUIET, connection: { phase: 'error', problem, occupancy }, activity: 'error', turns } };
}

const MINUTE = 60_000;

function scenes(now: number, epoch: number) {
  const lost = { code: 'connection-lost', detail: 'no answer to three pings' } as const;
  return {
    welcome: { state: QUIET },
    permission: { state: { ...QUIET, connection: { phase: 'requesting-microphone', transport: 'websocket' } } },
    connecting: { state: { ...QUIET, connection: { phase: 'connecting', transport: 'websocket', attempt: 1 } } },
    first: { state: { ...LIVE, turns: [], latency: QUIET.latency }, microphone: 0.004 },
    listening: { state: LIVE, microphone: 0.01 },
    hearing: {
      state: {
        ...LIVE,
        microphone: { ...LIVE.microphone, vad: 'speech' },
        turns: [...BEGUN, you('u3', 'Which of its museums should I', 'speaking')],
      },
      microphone: 0.16,
    },
    thinking: {
      state: {
        ...LIVE,
        activity: 'thinking',
        turns: [...BEGUN, you('u3', 'Which of its museums should I see first?')],
      },
    },
    speaking: {
      state: {
        ...LIVE,
        activity: 'speaking',
        playback: { playing: true, bufferedMs: 320, underruns: 0 },
        turns: [
          ...BEGUN,
          you('u3', 'Which of its museums should I see first?'),
          answer('a3', 'Start with the Musée d’Orsay: it is smaller than the Louvre,', {
            unheard: ' and its clock looks out over the river.',
            status: 'live',
            latencyMs: 702,
          }),
        ],
      },
      assistant: 0.15,
    },
    interrupted: { state: LIVE, microphone: 0.05 },
    muted: { state: { ...LIVE, microphone: { ...LIVE.microphone, muted: true } } },
    'push-to-talk': {
      state: { ...LIVE, settings: { ...LIVE.settings, turnDetection: { type: 'none' } } },
    },
    'text-only': {
      state: { ...LIVE, microphone: { ...QUIET.microphone } },
    },
    tool: {
      state: {
        ...LIVE,
        turns: [
          you('u1', 'What is the weather in Lyon?'),
          {
            kind: 'tool',
            id: 't1',
            name: 'get_weather',
            arguments: '{"city": "Lyon"}',
            output: '{"sky": "clear"}',
            status: 'done',
            at: NOW,
          },
          answer('a1', 'Clear skies over Lyon.'),
        ],
      },
    },
    recording: { state: { ...LIVE, recording: { active: true, seconds: 73 } }, microphone: 0.05 },
    'time-left': {
      state: { ...LIVE, session: { ...LIVE.session, expiresAtEpoch: epoch + 0.7 * MINUTE } },
    },
    reconnecting: {
      state: {
        ...LIVE,
        activity: 'error',
        connection: {
          phase: 'reconnecting',
          transport: 'websocket',
          attempt: 2,
          attempts: 8,
          retryAt: now + 4 * 1000,
          problem: lost,
          occupancy: null,
        },
      },
    },
    lost: failed('connection-lost', BEGUN),
    denied: failed('microphone-denied'),
    insecure: failed('insecure-context'),
    'no-device': failed('microphone-not-found'),
    'in-use': failed('microphone-in-use'),
    full: failed('server-full'),
    starting: failed('server-starting'),
    key: failed('unauthorized'),
    origin: failed('origin-not-allowed'),
    'no-webrtc': failed('webrtc-unavailable'),
    expired: failed('session-expired', BEGUN),
    ended: { state: { ...LIVE, connection: { phase: 'closed' }, activity: 'idle' } },
    settings: {
      state: {
        ...LIVE,
        session: { ...LIVE.session, pending: ['voice'] },
        settings: { ...LIVE.settings, voice: 'joe' },
      },
      panel: 'settings',
    },
    timings: { state: LIVE, panel: 'insights' },
    log: { state: LIVE, panel: 'log' },
    help: { state: LIVE, dialog: 'help' },
    notice: { state: LIVE, notice: true },
  } as const satisfies Record<string, Scene>;
}

export type SceneName = keyof ReturnType<typeof scenes>;

/** `now`: of the monotonic clock, `epoch`: of the wall clock, both in milliseconds. */
export function sceneOf(name: string, now: number, epoch: number): Scene | null {
  const all: Readonly<Record<string, Scene>> = scenes(now, epoch);
  return all[name] ?? null;
}

export function sceneNames(): readonly string[] {
  return Object.keys(scenes(0, 0));
}

export function logEntries(epoch: number): LogEntry[] {
  const types: readonly (readonly [LogEntry['direction'], string])[] = [
    ['local', 'microphone.on'],
    ['in', 'session.created'],
    ['out', 'session.update'],
    ['in', 'session.updated'],
    ['in', 'input_audio_buffer.speech_started'],
    ['in', 'input_audio_buffer.speech_stopped'],
    ['in', 'input_audio_buffer.committed'],
    ['in', 'conversation.item.added'],
    ['in', 'conversation.item.input_audio_transcription.completed'],
    ['in', 'response.created'],
    ['in', 'response.output_item.added'],
    ['in', 'response.content_part.added'],
    ['in', 'response.output_audio.delta'],
    ['in', 'response.output_audio.done'],
    ['in', 'response.done'],
  ];
  return types.map(([direction, type], index) => ({
    number: index + 1,
    atEpoch: epoch + 137 * index,
    direction,
    type,
    payload: { type, event_id: `event_${index}` },
  }));
}
