/**
 * What the page knows of the engine: the agent, its state and its commands. Types only.
 *
 * Times are milliseconds. Moments are on the clock of `performance.now()` unless a name says `epoch`.
 * State is an immutable snapshot: a part that has not changed keeps its identity, so `===` tells what to draw again.
 */

export type TransportKind = 'websocket' | 'webrtc';

// Connection

/** Why there is no connection, or why the last one ended. The page maps each to what a person can do about it. */
export type ProblemCode =
  /** The page is neither https nor localhost, so the browser gives it no microphone. */
  | 'insecure-context'
  /** The person, or a policy, said no to the microphone. */
  | 'microphone-denied'
  | 'microphone-not-found'
  /** Another program holds the microphone, or the system does not hand it out. */
  | 'microphone-in-use'
  | 'microphone-failed'
  /** The browser lacks AudioWorklet, getUserMedia or RTCPeerConnection. */
  | 'unsupported-browser'
  | 'server-unreachable'
  /** The server holds its maximum of conversations. */
  | 'server-full'
  /** The server runs, and its models are still being loaded. */
  | 'server-starting'
  /** A key is asked for, or the one given is wrong or has expired. */
  | 'unauthorized'
  /** The server asks for no key, and pages of this page's address may not use it. */
  | 'origin-not-allowed'
  /** The conversation has lasted as long as the server lets one last. */
  | 'session-expired'
  /** The server has gone away, or says that it failed. */
  | 'server-gone'
  | 'server-failed'
  /** The network or the peer vanished in the middle. */
  | 'connection-lost'
  /** This server has no WebRTC endpoint, or refused the offer. */
  | 'webrtc-unavailable'
  /** Client and server do not understand each other. */
  | 'protocol-error';

export interface Problem {
  readonly code: ProblemCode;
  /** For the log and for details on demand; not for people who just want to talk. */
  readonly detail: string;
}

/** How many conversations the server holds; null where it does not say. */
export interface Occupancy {
  readonly current: number;
  readonly max: number;
}

export type ConnectionState =
  | { readonly phase: 'idle' }
  | { readonly phase: 'requesting-microphone'; readonly transport: TransportKind }
  | { readonly phase: 'connecting'; readonly transport: TransportKind; readonly attempt: number }
  | { readonly phase: 'live'; readonly transport: TransportKind; readonly since: number }
  | {
      readonly phase: 'reconnecting';
      readonly transport: TransportKind;
      /** The attempt that comes next: 1, 2, … of `attempts`. */
      readonly attempt: number;
      readonly attempts: number;
      /** When it comes: the page counts down to it. */
      readonly retryAt: number;
      readonly problem: Problem;
      readonly occupancy: Occupancy | null;
    }
  /** Ended by the person or by the page being left. */
  | { readonly phase: 'closed' }
  | { readonly phase: 'error'; readonly problem: Problem; readonly occupancy: Occupancy | null };

export interface ConnectOptions {
  readonly transport: TransportKind;
  /** false: text only, without asking for a microphone. Default: true. */
  readonly microphone?: boolean;
  /** Put the conversation so far back into the new session. Default: true if there is one. */
  readonly resume?: boolean;
}

// Settings

export type TurnDetection =
  | {
      readonly type: 'server_vad';
      /** 0 to 1. */
      readonly threshold: number;
      /** 0 to 10000. */
      readonly silenceMs: number;
      readonly prefixPaddingMs: number;
    }
  | { readonly type: 'semantic_vad'; readonly eagerness: Eagerness }
  /** Push-to-talk. */
  | { readonly type: 'none' };

export type Eagerness = 'low' | 'medium' | 'high' | 'auto';

export interface Settings {
  /** null: the server's default. */
  readonly voice: string | null;
  /** Empty: the server's own. */
  readonly instructions: string;
  readonly turnDetection: TurnDetection;
  /** 0.25 to 1.5. */
  readonly speed: number;
  /** BCP 47, such as `en`; null: the recogniser decides. */
  readonly language: string | null;
  /** Whether answers are spoken or written. */
  readonly output: 'audio' | 'text';
}

/** A setting that holds only for a new session. `restart()` makes one and keeps the conversation. */
export type PendingSetting = 'voice';

// State

/** What the orb shows. `idle`: not connected. */
export type Activity = 'idle' | 'listening' | 'thinking' | 'speaking' | 'error';

export interface MicrophoneState {
  /** `lost`: the device went away in the middle and no other could be taken. */
  readonly status: 'off' | 'requesting' | 'on' | 'lost';
  /** Muted by the person. Silence is sent, so that turns still end. */
  readonly muted: boolean;
  /** Whether push-to-talk is held down. */
  readonly held: boolean;
  /** `speech`: the server hears somebody speak. `off`: push-to-talk, or no microphone. */
  readonly vad: 'off' | 'quiet' | 'speech';
  readonly problem: Problem | null;
}

export interface ToolCall {
  readonly kind: 'tool';
  readonly id: string;
  readonly name: string;
  /** JSON text, as far as it is written. */
  readonly arguments: string;
  /** What came of it; null while it is not known. */
  readonly output: string | null;
  readonly status: 'writing' | 'running' | 'done' | 'failed';
  readonly at: number;
}

export interface UserTurn {
  readonly kind: 'user';
  /** The conversation item's id. */
  readonly id: string;
  readonly source: 'speech' | 'text';
  readonly text: string;
  /**
   * `speaking`: the person speaks. `transcribing`: words are still to come. `final`: `text` holds.
   * `untranscribed`: there will be no words.
   */
  readonly status: 'speaking' | 'transcribing' | 'final' | 'untranscribed';
  readonly at: number;
}

export interface AssistantTurn {
  readonly kind: 'assistant';
  readonly id: string;
  readonly responseId: string;
  /** Said so far, in step with playback. */
  readonly heard: string;
  /** Generated and not heard: not yet while `live`, never when `interrupted`. `heard + unheard` is the whole text. */
  readonly unheard: string;
  /** `live`: being written or played. */
  readonly status: 'live' | 'final' | 'failed';
  /** Cut off; `unheard` was never heard. */
  readonly interrupted: boolean;
  /** Spoken, or written only. */
  readonly spoken: boolean;
  /** End of speech to first audible sample of this answer; null while, or if, it is not known. */
  readonly latencyMs: number | null;
  readonly at: number;
}

export type Turn = UserTurn | AssistantTurn | ToolCall;

export interface LatencyTurn {
  readonly responseId: string;
  readonly ms: number;
  /**
   * Where the end of speech comes from: `server` its own measure, `vad` the configured silence before its decision,
   * `release` the push-to-talk key or the sent text, `decision` the decision itself (the silence before is missing).
   */
  readonly basis: 'server' | 'vad' | 'release' | 'decision';
}

export interface LatencyReport {
  /** Oldest first. */
  readonly turns: readonly LatencyTurn[];
  readonly last: number | null;
  readonly median: number | null;
  /** Onset of speech over an answer, or the stop command, to silence: the last one. */
  readonly bargeInStop: number | null;
}

export interface NetworkReport {
  /** Round trip; null while unknown. */
  readonly rttMs: number | null;
  /** WebRTC only. */
  readonly jitterMs: number | null;
  /** WebRTC only: share of incoming packets lost, 0 to 1. */
  readonly lossRate: number | null;
  readonly bytesSent: number;
  readonly bytesReceived: number;
}

export interface PlaybackReport {
  readonly playing: boolean;
  /** Sound received and not yet played (WebRTC: the jitter buffer). */
  readonly bufferedMs: number;
  /** Times that an answer stuttered because sound came late (WebRTC: concealments). */
  readonly underruns: number;
}

export interface SessionReport {
  readonly id: string | null;
  readonly model: string | null;
  /** Unix time in milliseconds at which the server ends the session: the page counts down. */
  readonly expiresAtEpoch: number | null;
  /** Voices that the server names; empty if it names none. */
  readonly voices: readonly string[];
  /** The voice that is in force. */
  readonly voice: string | null;
  readonly pending: readonly PendingSetting[];
}

export interface Device {
  readonly id: string;
  readonly label: string;
}

export interface DeviceReport {
  /** Labels are empty until the microphone was allowed. */
  readonly microphones: readonly Device[];
  readonly speakers: readonly Device[];
  /** null: the system's default. */
  readonly microphone: string | null;
  readonly speaker: string | null;
  /** Whether this browser can choose the loudspeaker. */
  readonly canChooseSpeaker: boolean;
}

export interface RecordingState {
  readonly active: boolean;
  readonly seconds: number;
}

export interface AgentState {
  readonly connection: ConnectionState;
  readonly activity: Activity;
  readonly microphone: MicrophoneState;
  /** Oldest first. */
  readonly turns: readonly Turn[];
  readonly latency: LatencyReport;
  readonly network: NetworkReport;
  readonly playback: PlaybackReport;
  readonly session: SessionReport;
  /** As the person wants them. */
  readonly settings: Settings;
  readonly devices: DeviceReport;
  readonly recording: RecordingState;
}

// Happenings

/** Something that the person should be told once, and that does not change what works. */
export interface Notice {
  readonly code:
    | 'settings-refused'
    | 'microphone-lost'
    | 'microphone-switched'
    | 'speaker-failed'
    | 'response-failed'
    | 'too-short'
    | 'server-error';
  readonly detail: string;
}

export interface LogEntry {
  /** Counts up from 1. */
  readonly number: number;
  readonly atEpoch: number;
  /** `local`: noted by the engine itself. */
  readonly direction: 'in' | 'out' | 'local';
  readonly type: string;
  /** Sound is replaced by its number of bytes. */
  readonly payload: Readonly<Record<string, unknown>>;
}

export interface LogFilter {
  /** Substring of the type or the payload's JSON, case-insensitive. */
  readonly text?: string;
  readonly direction?: LogEntry['direction'];
  /** Leave out what comes many times a second (`*.delta`). */
  readonly withoutDeltas?: boolean;
}

export interface AgentEvents {
  /** The state has changed; at most once per task. */
  readonly state: AgentState;
  readonly notice: Notice;
  readonly log: LogEntry;
}

/** Loudness now, for meters: read it on every animation frame. Root mean square, 0 to 1; 0 when silent or off. */
export interface Levels {
  readonly microphone: number;
  readonly assistant: number;
}

/** A function that the model may call; `run` gets the parsed arguments. What it returns is sent back as JSON. */
export interface Tool {
  readonly name: string;
  readonly description: string;
  /** JSON schema. */
  readonly parameters: Readonly<Record<string, unknown>>;
  run(args: Readonly<Record<string, unknown>>): Promise<unknown>;
}

export interface AgentOptions {
  /** Where the server is. Default: where the page came from. */
  readonly baseUrl?: string;
  /** Sent as a bearer token, or as a subprotocol of the WebSocket; null: none. Default: null. */
  readonly apiKey?: string | null;
  readonly settings?: Partial<Settings>;
  readonly tools?: readonly Tool[];
  /** Where choices of devices are remembered; null: nowhere. Default: `localStorage`. */
  readonly storage?: Storage | null;
}

/** A spoken conversation with the server. Commands never throw for what `state` tells: failures become states. */
export interface Agent {
  readonly state: AgentState;
  readonly levels: Levels;
  /** Returns what ends the subscription. */
  on<K extends keyof AgentEvents>(kind: K, listener: (event: AgentEvents[K]) => void): () => void;

  /** Must be called from a click or key press the first time: it unlocks sound. Settles once live or failed. */
  connect(options: ConnectOptions): Promise<void>;
  /** Ends the conversation; turns stay readable. */
  disconnect(): void;
  /** A new session with the same conversation, for settings that are `pending`. */
  restart(): Promise<void>;
  /** Ends a countdown early. */
  retryNow(): void;
  setApiKey(key: string | null): void;

  setMuted(muted: boolean): void;
  /**
   * With turn detection `none`: held down, the person is heard; released, they are answered.
   * Otherwise: held down, a muted microphone is open.
   */
  pushToTalk(down: boolean): void;
  /** Stop talking: the answer under way is cut where it was heard. Nothing if nobody talks. */
  interrupt(): void;
  /** Say something in writing; it is answered like speech, and interrupts like it. */
  sendText(text: string): void;
  /** Changes what is given; holds from now on, or from the next connection on. */
  updateSettings(patch: Partial<Settings>): void;
  /** Forget the conversation: on the server too. */
  clearConversation(): void;

  /** Asks the browser anew; also happens by itself when devices come and go. */
  listDevices(): Promise<DeviceReport>;
  /** Live; null: the system's default. */
  setMicrophone(id: string | null): Promise<void>;
  setSpeaker(id: string | null): Promise<void>;

  /** The log's entries, oldest first; the newest 5000 are kept. */
  log(filter?: LogFilter): readonly LogEntry[];
  /** One JSON object a line. */
  exportLog(filter?: LogFilter): string;
  clearLog(): void;
  /** The conversation as plain text, what was not heard marked. */
  exportTranscript(): string;

  startRecording(): void;
  /** Stereo WAV, 24 kHz: the person left, the assistant right; null if nothing was recorded. */
  stopRecording(): Blob | null;

  /** Ends everything for good; the agent is of no use afterwards. */
  dispose(): void;
}
