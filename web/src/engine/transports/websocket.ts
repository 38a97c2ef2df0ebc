/** A session over a WebSocket; sound goes as binary frames both ways (the server's extension `binary-audio`). */

import type { ClientEvent, ErrorObject } from '../protocol/events';
import { type Incoming, parseAudio, parseBinary, parseText } from '../protocol/parse';
import { endOfSocket } from '../reconnect';
import { errorIn, type Quality, type Target, type Transport, type TransportEvents } from './transport';

const KEY_PROTOCOL = 'openai-insecure-api-key.';
/** Round trips that the report is the best of: one alone may have waited behind something else. */
const TRIPS = 5;
const NORMAL = 1000;

function addressOf(baseUrl: string): string {
  const query = 'include=timings&extensions=binary-audio';
  return `${baseUrl.replace(/^http/, 'ws')}/v1/realtime?${query}`;
}

export class WebSocketTransport implements Transport {
  readonly kind = 'websocket';
  readonly #socket: WebSocket;
  readonly #events: TransportEvents;
  readonly #baseUrl: string;
  #error: ErrorObject | null = null;
  #opened = false;
  #closed = false;
  #sent = 0;
  #received = 0;
  #trips: number[] = [];

  constructor(target: Target, events: TransportEvents) {
    this.#events = events;
    this.#baseUrl = target.baseUrl;
    // The server selects `realtime` and never repeats the key.
    const protocols = ['realtime', ...(target.apiKey === null ? [] : [KEY_PROTOCOL + target.apiKey])];
    const socket = new WebSocket(addressOf(target.baseUrl), protocols);
    socket.binaryType = 'arraybuffer';
    socket.onopen = () => {
      this.#opened = true;
    };
    socket.onmessage = (message: MessageEvent<string | ArrayBuffer>) => this.#receive(message.data);
    socket.onclose = ({ code, reason }) => this.#end(code, reason);
    this.#socket = socket;
  }

  send(event: ClientEvent): void {
    this.#write(JSON.stringify(event));
  }

  sendAudio(pcm: Int16Array<ArrayBuffer>): void {
    this.#write(pcm.buffer);
  }

  async setMicrophone(): Promise<void> {
    // The capture graph, not this connection, holds the microphone.
  }

  /** Browsers cannot ping on a WebSocket, so the round trip is that of a small request to the same server. */
  async quality(): Promise<Quality> {
    const began = performance.now();
    try {
      await fetch(`${this.#baseUrl}/health`, { cache: 'no-store' });
      this.#trips = [...this.#trips.slice(1 - TRIPS), performance.now() - began];
    } catch {
      // The connection itself will tell if the server is gone.
    }
    const rttMs = this.#trips.length > 0 ? Math.min(...this.#trips) : null;
    return { network: { rttMs, bytesSent: this.#sent, bytesReceived: this.#received }, playback: null };
  }

  close(): void {
    this.#closed = true;
    this.#socket.close(NORMAL);
  }

  #write(data: string | ArrayBuffer): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    this.#sent += typeof data === 'string' ? data.length : data.byteLength;
    this.#socket.send(data);
  }

  #receive(data: string | ArrayBuffer): void {
    if (this.#closed) return;
    if (typeof data !== 'string') {
      this.#received += data.byteLength;
      const audio = parseBinary(new Uint8Array(data));
      if (audio !== null) this.#events.audio(audio);
      return;
    }
    this.#received += data.length;
    const incoming = parseText(data);
    if (incoming !== null) this.#tell(incoming);
  }

  #tell(incoming: Incoming): void {
    const audio = parseAudio(incoming);
    if (audio !== null) {
      this.#events.audio(audio);
      return;
    }
    this.#error = errorIn(incoming) ?? this.#error;
    this.#events.event(incoming);
  }

  #end(code: number, reason: string): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#events.ended(endOfSocket(code, reason, this.#error, this.#opened));
  }
}
