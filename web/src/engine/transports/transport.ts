/** What carries a session: events both ways, and sound. */

import type { NetworkReport, TransportKind } from '../api';
import type { ClientEvent, ErrorObject, SessionPatch } from '../protocol/events';
import type { Incoming, IncomingAudio } from '../protocol/parse';
import type { End } from '../reconnect';

export interface TransportEvents {
  event(incoming: Incoming): void;
  /** Sound that the client has to play. */
  audio(audio: IncomingAudio): void;
  /** Sound that plays by itself, once it is there. */
  remote(stream: MediaStream): void;
  /** Nothing comes after it. Does not happen if this side has closed. */
  ended(end: End): void;
}

/** Where to, and as whom. */
export interface Target {
  /** http or https, without a slash at the end. */
  readonly baseUrl: string;
  readonly apiKey: string | null;
  /** The session to begin with, for transports that can say so at once. */
  readonly session: SessionPatch;
  /** null: none. */
  readonly microphone: MediaStreamTrack | null;
}

export interface Quality {
  readonly network: Partial<NetworkReport>;
  readonly playback: { readonly bufferedMs: number; readonly underruns: number } | null;
}

export interface Transport {
  readonly kind: TransportKind;
  send(event: ClientEvent): void;
  /** 24 kHz mono. Nothing where a track carries the microphone. */
  sendAudio(pcm: Int16Array<ArrayBuffer>): void;
  /** Another microphone; null: none. */
  setMicrophone(track: MediaStreamTrack | null): Promise<void>;
  quality(): Promise<Quality>;
  close(): void;
}

/** Remembers what may explain a close that follows. */
export function errorIn(incoming: Incoming): ErrorObject | null {
  return incoming.event?.type === 'error' ? incoming.event.error : null;
}
