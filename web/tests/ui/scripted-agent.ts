/** An agent without sound or server, for tests and pictures: it shows the state that it is given and notes what it is told. */

import type {
  Agent,
  AgentEvents,
  AgentState,
  ConnectOptions,
  DeviceReport,
  Levels,
  LogEntry,
  LogFilter,
  Settings,
} from '../../src/engine/api';

export const QUIET: AgentState = {
  connection: { phase: 'idle' },
  activity: 'idle',
  microphone: { status: 'off', muted: false, held: false, vad: 'off', problem: null },
  turns: [],
  latency: { turns: [], last: null, median: null, bargeInStop: null },
  network: { rttMs: null, jitterMs: null, lossRate: null, bytesSent: 0, bytesReceived: 0 },
  playback: { playing: false, bufferedMs: 0, underruns: 0 },
  session: { id: null, model: null, expiresAtEpoch: null, voices: [], voice: null, pending: [] },
  settings: {
    voice: null,
    instructions: '',
    turnDetection: { type: 'server_vad', threshold: 0.5, silenceMs: 500, prefixPaddingMs: 300 },
    speed: 1,
    language: null,
    output: 'audio',
  },
  devices: { microphones: [], speakers: [], microphone: null, speaker: null, canChooseSpeaker: true },
  recording: { active: false, seconds: 0 },
};

export type Call = readonly [command: string, ...given: unknown[]];

type Listeners = { [K in keyof AgentEvents]: Set<(event: AgentEvents[K]) => void> };

export class ScriptedAgent implements Agent {
  /** What it was told, in order. */
  readonly calls: Call[] = [];
  levels: Levels = { microphone: 0, assistant: 0 };
  entries: LogEntry[] = [];
  sound: Blob | null = null;
  #state: AgentState;
  readonly #listeners: Listeners = { state: new Set(), notice: new Set(), log: new Set() };

  constructor(state: Partial<AgentState> = {}) {
    this.#state = { ...QUIET, ...state };
  }

  get state(): AgentState {
    return this.#state;
  }

  show(patch: Partial<AgentState>): void {
    this.#state = { ...this.#state, ...patch };
    this.emit('state', this.#state);
  }

  emit<K extends keyof AgentEvents>(kind: K, event: AgentEvents[K]): void {
    for (const listener of this.#listeners[kind]) listener(event);
  }

  on<K extends keyof AgentEvents>(kind: K, listener: (event: AgentEvents[K]) => void): () => void {
    this.#listeners[kind].add(listener);
    return () => this.#listeners[kind].delete(listener);
  }

  async connect(options: ConnectOptions): Promise<void> {
    this.calls.push(['connect', options]);
  }
  disconnect(): void {
    this.calls.push(['disconnect']);
  }
  async restart(): Promise<void> {
    this.calls.push(['restart']);
  }
  retryNow(): void {
    this.calls.push(['retryNow']);
  }
  setApiKey(key: string | null): void {
    this.calls.push(['setApiKey', key]);
  }
  setMuted(muted: boolean): void {
    this.calls.push(['setMuted', muted]);
    this.show({ microphone: { ...this.#state.microphone, muted } });
  }
  pushToTalk(down: boolean): void {
    this.calls.push(['pushToTalk', down]);
    this.show({ microphone: { ...this.#state.microphone, held: down } });
  }
  interrupt(): void {
    this.calls.push(['interrupt']);
  }
  sendText(text: string): void {
    this.calls.push(['sendText', text]);
  }
  updateSettings(patch: Partial<Settings>): void {
    this.calls.push(['updateSettings', patch]);
    this.show({ settings: { ...this.#state.settings, ...patch } });
  }
  clearConversation(): void {
    this.calls.push(['clearConversation']);
    this.show({ turns: [] });
  }
  async listDevices(): Promise<DeviceReport> {
    this.calls.push(['listDevices']);
    return this.#state.devices;
  }
  async setMicrophone(id: string | null): Promise<void> {
    this.calls.push(['setMicrophone', id]);
  }
  async setSpeaker(id: string | null): Promise<void> {
    this.calls.push(['setSpeaker', id]);
  }
  log({ text = '', direction, withoutDeltas = false }: LogFilter = {}): readonly LogEntry[] {
    return this.entries.filter(
      (entry) =>
        entry.type.includes(text) &&
        (direction === undefined || entry.direction === direction) &&
        !(withoutDeltas && entry.type.endsWith('.delta')),
    );
  }
  exportLog(filter?: LogFilter): string {
    return this.log(filter)
      .map((entry) => `${JSON.stringify(entry)}\n`)
      .join('');
  }
  clearLog(): void {
    this.calls.push(['clearLog']);
  }
  exportTranscript(): string {
    return 'You: Hello.\n';
  }
  startRecording(): void {
    this.calls.push(['startRecording']);
    this.show({ recording: { active: true, seconds: 0 } });
  }
  stopRecording(): Blob | null {
    this.calls.push(['stopRecording']);
    this.show({ recording: { active: false, seconds: 0 } });
    return this.sound;
  }
  dispose(): void {
    this.calls.push(['dispose']);
  }
}
