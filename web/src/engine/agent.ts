/** The agent: connection, conversation and sound put together. */

import type {
  Agent,
  AgentEvents,
  AgentOptions,
  AgentState,
  ConnectionState,
  ConnectOptions,
  DeviceReport,
  Levels,
  LogEntry,
  LogFilter,
  PlaybackReport,
  Problem,
  Settings,
} from './api';
import { obstacle, surroundings } from './audio/microphone';
import { type LocalOutput, RemoteOutput } from './audio/output';
import { durationMs, RATE } from './audio/pcm';
import { turnsOf } from './conversation/entries';
import { transcriptText } from './conversation/text';
import { Dialogue } from './dialogue';
import { Link } from './link';
import { EventLog } from './log';
import { Media } from './media';
import type { ClientEvent, ServerEvent } from './protocol/events';
import type { Incoming, IncomingAudio } from './protocol/parse';
import { Server } from './server';
import { DEFAULTS, initialSession } from './settings';
import { activityOf, initialState } from './state';
import { Store } from './store';
import { Talk } from './talk';
import { toolObjects } from './tools';
import type { Transport, TransportEvents } from './transports/transport';
import { WebRtcTransport } from './transports/webrtc';
import { WebSocketTransport } from './transports/websocket';
import { WakeLock } from './wakelock';

const QUALITY_MS = 3000;

export function createAgent(options: AgentOptions = {}): Agent {
  return new VoiceAgent(options);
}

class VoiceAgent implements Agent {
  readonly #options: AgentOptions;
  readonly #store: Store;
  readonly #media: Media;
  readonly #dialogue: Dialogue;
  readonly #talk: Talk;
  readonly #server: Server;
  readonly #log = new EventLog();
  readonly #wakeLock = new WakeLock();
  readonly #leave = () => this.disconnect();
  readonly #remote: RemoteOutput;
  #link: Link | null = null;
  #local: LocalOutput | null = null;
  #quality: ReturnType<typeof setInterval> | undefined;
  #last: ConnectOptions = { transport: 'websocket' };
  #stale = false;

  constructor(options: AgentOptions) {
    this.#options = options;
    this.#store = new Store(initialState({ ...DEFAULTS, ...options.settings }));
    this.#server = new Server(options.baseUrl ?? new URL('.', document.baseURI).href, options.apiKey ?? null);
    const output = {
      changed: (report: Partial<PlaybackReport>) => this.#played(report),
      played: (itemId: string, ms: number) => this.#dialogue.played(itemId, ms),
      drained: (itemId: string) => this.#dialogue.drained(itemId),
      cut: (itemId: string, ms: number) => this.#dialogue.cut(itemId, ms),
    };
    this.#media = new Media(this.#store, options.storage === undefined ? localStorage : options.storage, {
      ...output,
      captured: (pcm, moment) => this.#talk.captured({ pcm, moment }),
      heard: (end, loud) => this.#dialogue.heard(end, loud),
      switched: (track) => void this.#transport?.setMicrophone(track),
    });
    this.#remote = new RemoteOutput(output, () => performance.now());
    this.#dialogue = new Dialogue({
      send: (event) => this.#send(event),
      local: () => this.#last.transport === 'websocket',
      playing: () => this.#store.state.playback.playing,
      stop: () => this.#local?.clear(),
      settings: () => this.#wanted,
      sent: () => this.#talk.sent,
      now: () => performance.now(),
      tools: options.tools ?? [],
      changed: () => this.#changed(),
      session: (report) => this.#store.patch('session', report),
      vad: (vad) => this.#store.patch('microphone', { vad }),
      notice: (notice) => this.#store.emit('notice', notice),
    });
    this.#talk = new Talk({
      store: this.#store,
      media: this.#media,
      dialogue: this.#dialogue,
      transport: () => this.#transport,
      send: (event) => this.#send(event),
      now: () => performance.now(),
    });
    this.#media.recall();
    addEventListener('pagehide', this.#leave);
  }

  get state(): AgentState {
    return this.#store.state;
  }

  get levels(): Levels {
    return this.#media.levels;
  }

  on<K extends keyof AgentEvents>(kind: K, listener: (event: AgentEvents[K]) => void): () => void {
    return this.#store.on(kind, listener);
  }

  // Connection

  async connect(options: ConnectOptions): Promise<void> {
    this.#hangUp();
    this.#last = options;
    if (options.resume === false) this.#dialogue.forget();
    const here = surroundings();
    if (here.secure && here.hasWorklet) this.#media.unlock();
    const link = this.#newLink(options);
    this.#link = link;
    const problem = await this.#prepare(options);
    if (this.#link !== link) return; // another command came meanwhile
    if (problem !== null) {
      this.#hangUp();
      this.#connection({ phase: 'error', problem, occupancy: null });
      return;
    }
    void this.#server.voices().then((voices) => this.#store.patch('session', { voices }));
    link.open();
    await link.settled;
  }

  disconnect(): void {
    const { phase } = this.#store.state.connection;
    if (this.#link === null && phase !== 'error') return;
    this.#hangUp();
    this.#connection({ phase: 'closed' });
  }

  async restart(): Promise<void> {
    await this.connect({ ...this.#last, resume: true });
  }

  retryNow(): void {
    this.#link?.retryNow();
  }

  setApiKey(key: string | null): void {
    this.#server.apiKey = key;
  }

  // Talking

  setMuted(muted: boolean): void {
    this.#talk.setMuted(muted);
  }

  pushToTalk(down: boolean): void {
    this.#talk.push(down);
  }

  interrupt(): void {
    this.#dialogue.interrupt();
  }

  sendText(text: string): void {
    const said = text.trim();
    if (said !== '' && this.#transport !== null) this.#dialogue.say(said);
  }

  updateSettings(patch: Partial<Settings>): void {
    this.#store.set({ settings: { ...this.#store.state.settings, ...patch } });
    this.#talk.apply();
    this.#dialogue.settingsChanged();
  }

  clearConversation(): void {
    this.#dialogue.interrupt();
    this.#dialogue.forget();
  }

  // Devices

  async listDevices(): Promise<DeviceReport> {
    await this.#media.listDevices();
    return this.#store.state.devices;
  }

  async setMicrophone(id: string | null): Promise<void> {
    await this.#media.setMicrophone(id);
  }

  async setSpeaker(id: string | null): Promise<void> {
    await this.#media.setSpeaker(id);
  }

  // Records

  log(filter?: LogFilter): readonly LogEntry[] {
    return this.#log.select(filter);
  }

  exportLog(filter?: LogFilter): string {
    return this.#log.ndjson(filter);
  }

  clearLog(): void {
    this.#log.clear();
  }

  exportTranscript(): string {
    return transcriptText(this.#store.state.turns);
  }

  startRecording(): void {
    this.#media.startRecording();
  }

  stopRecording(): Blob | null {
    return this.#media.stopRecording();
  }

  dispose(): void {
    removeEventListener('pagehide', this.#leave);
    this.disconnect();
    void this.#media.dispose();
  }

  // Inside

  get #transport(): Transport | null {
    return this.#link?.transport ?? null;
  }

  /** Where no sound can be played, answers are written. */
  get #wanted(): Settings {
    const { settings } = this.#store.state;
    return this.#media.ready ? settings : { ...settings, output: 'text' };
  }

  /** Sound and microphone, as far as they are wanted; why there is none. */
  async #prepare(options: ConnectOptions): Promise<Problem | null> {
    const spoken = options.microphone !== false;
    const missing = spoken ? obstacle(surroundings()) : null;
    if (missing !== null) return missing;
    this.#connection({
      phase: spoken ? 'requesting-microphone' : 'connecting',
      transport: options.transport,
      attempt: 1,
    });
    try {
      await this.#media.start();
    } catch (error) {
      return { code: 'unsupported-browser', detail: String(error) };
    }
    this.#talk.apply();
    if (!spoken) this.#media.closeMicrophone();
    return spoken && this.#media.track === null ? this.#media.openMicrophone() : null;
  }

  #newLink({ transport }: ConnectOptions): Link {
    const parts = {
      open: (events: TransportEvents) => this.#open(events),
      occupancy: () => this.#server.occupancy(),
      now: () => performance.now(),
      random: Math.random,
    };
    return new Link(transport, parts, {
      changed: (state) => this.#connection(state),
      live: () => this.#live(),
      lost: () => this.#lost(),
      event: (incoming) => this.#receive(incoming),
      audio: (audio) => this.#hear(audio),
      remote: (stream) => this.#media.playRemote(stream),
    });
  }

  #open(events: TransportEvents): Transport {
    const { baseUrl, apiKey } = this.#server;
    const session = initialSession(this.#wanted, toolObjects(this.#options.tools ?? []));
    const target = { baseUrl, apiKey, session, microphone: this.#media.track };
    return this.#last.transport === 'websocket'
      ? new WebSocketTransport(target, events)
      : new WebRtcTransport(target, () => this.#server.iceServers(), events);
  }

  #live(): void {
    this.#talk.begin();
    if (this.#last.transport === 'websocket') this.#local = this.#media.playLocally();
    this.#wakeLock.hold();
    clearInterval(this.#quality);
    this.#quality = setInterval(() => void this.#measure(), QUALITY_MS);
    void this.#measure();
  }

  #lost(): void {
    clearInterval(this.#quality);
    this.#talk.end();
    this.#dialogue.disconnected();
    this.#remote.close();
    this.#local = null;
    this.#media.stopOutput();
  }

  #hangUp(): void {
    if (this.#link === null) return;
    this.#link.close();
    this.#link = null;
    this.#wakeLock.release();
    this.#lost();
  }

  #receive(incoming: Incoming): void {
    this.#note('in', incoming.raw);
    if (incoming.event === null) return;
    this.#dialogue.receive(incoming.event);
    if (this.#last.transport === 'webrtc') this.#follow(incoming.event);
    else if (incoming.event.type === 'response.output_audio.done') this.#local?.end(incoming.event.item_id);
  }

  /** What a server that plays the sound itself says of it. */
  #follow(event: ServerEvent): void {
    switch (event.type) {
      case 'response.output_item.added':
        if (event.item.type === 'message') this.#remote.began(event.response_id, event.item.id);
        return;
      case 'output_audio_buffer.started':
        this.#remote.started(event.response_id);
        break;
      case 'output_audio_buffer.stopped':
        this.#remote.stopped(event.response_id);
        break;
      case 'output_audio_buffer.cleared':
        this.#remote.cleared(event.response_id);
        break;
    }
  }

  #hear({ raw, itemId, responseId, pcm }: IncomingAudio): void {
    this.#note('in', raw);
    if (this.#dialogue.admit(itemId, responseId, durationMs(pcm.length, RATE))) this.#local?.push(itemId, pcm);
  }

  #send(event: ClientEvent): void {
    if (this.#transport === null) return;
    this.#note('out', { ...event });
    this.#transport.send(event);
  }

  #note(direction: LogEntry['direction'], event: Readonly<Record<string, unknown>>): void {
    const entry = this.#log.add(direction, String(event['type']), event, Date.now());
    this.#store.emit('log', entry);
  }

  async #measure(): Promise<void> {
    const transport = this.#transport;
    const quality = await transport?.quality();
    if (quality === undefined || transport !== this.#transport) return;
    this.#store.patch('network', quality.network);
    if (quality.playback !== null) this.#store.patch('playback', quality.playback);
  }

  #played(report: Partial<PlaybackReport>): void {
    const before = this.#store.state.playback.playing;
    this.#store.patch('playback', report);
    if (this.#store.state.playback.playing !== before) this.#changed();
  }

  #connection(connection: ConnectionState): void {
    this.#note('local', { type: `connection.${connection.phase}`, ...connection });
    this.#store.set({ connection });
    if (connection.phase === 'error' || connection.phase === 'closed') {
      this.#wakeLock.release();
      this.#media.closeMicrophone(); // nobody listens, so nothing may look as if
    }
    this.#changed();
  }

  /** Derived parts are made anew once for all changes of a task. */
  #changed(): void {
    if (this.#stale) return;
    this.#stale = true;
    queueMicrotask(() => {
      this.#stale = false;
      const { connection, playback, turns } = this.#store.state;
      this.#store.set({
        turns: turnsOf(this.#dialogue.state.entries, turns),
        latency: this.#dialogue.latency.report(),
        activity: activityOf(connection, this.#dialogue.state, playback.playing),
      });
    });
  }
}
