/** A session over WebRTC: `POST /v1/realtime/calls`, the microphone as a track, events on a data channel. */

import type { ClientEvent, ErrorObject } from '../protocol/events';
import { parseRefusal, parseText } from '../protocol/parse';
import { type End, endOfCall, endOfOffer } from '../reconnect';
import { LOOK_MS, SilenceWatch } from './silence';
import { inboundQuality, lossSince, type ReceivedPackets } from './stats';
import { errorIn, type Quality, type Target, type Transport, type TransportEvents } from './transport';

/** The contract's name of the channel that the events run over. */
const CHANNEL = 'oai-events';
/** Candidates are gathered before the offer is sent, because the answer is the only reply. */
const GATHER_MS = 2000;
/** From the offer to an open channel. */
const CONNECT_MS = 15_000;

export class WebRtcTransport implements Transport {
  readonly kind = 'webrtc';
  readonly #peer: RTCPeerConnection;
  readonly #channel: RTCDataChannel;
  readonly #sender: RTCRtpSender;
  readonly #target: Target;
  readonly #events: TransportEvents;
  readonly #given = new AbortController();
  #call: string | null = null;
  #closed = false;
  readonly #connecting: ReturnType<typeof setTimeout>;
  #looking: ReturnType<typeof setInterval> | undefined;
  #packets: ReceivedPackets | null = null;
  #error: ErrorObject | null = null;

  constructor(target: Target, iceServers: () => Promise<readonly RTCIceServer[]>, events: TransportEvents) {
    this.#target = target;
    this.#events = events;
    const peer = new RTCPeerConnection();
    const direction = target.microphone === null ? 'recvonly' : 'sendrecv';
    this.#sender = peer.addTransceiver(target.microphone ?? 'audio', { direction }).sender;
    this.#channel = peer.createDataChannel(CHANNEL);
    this.#channel.onopen = () => this.#opened();
    this.#channel.onmessage = (message: MessageEvent<string>) => this.#receive(message.data);
    this.#channel.onclose = () => this.#lose('the data channel was closed');
    peer.ontrack = ({ track, streams }) => events.remote(streams[0] ?? new MediaStream([track]));
    peer.onconnectionstatechange = () => {
      // `disconnected` may heal by itself; whether anything comes says more.
      const state = peer.connectionState;
      if (state === 'failed' || state === 'closed') this.#lose(`the connection has ${state}`);
    };
    this.#peer = peer;
    this.#connecting = setTimeout(() => this.#lose('no connection in time'), CONNECT_MS);
    this.#negotiate(iceServers).catch((error: unknown) => this.#lose(String(error)));
  }

  send(event: ClientEvent): void {
    if (this.#channel.readyState === 'open') this.#channel.send(JSON.stringify(event));
  }

  sendAudio(): void {
    // The track carries it.
  }

  async setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    await this.#sender.replaceTrack(track);
  }

  async quality(): Promise<Quality> {
    const { network, playback, packets } = inboundQuality(await this.#peer.getStats());
    const lossRate = lossSince(this.#packets, packets);
    this.#packets = packets;
    return { network: { ...network, lossRate }, playback };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#connecting);
    clearInterval(this.#looking);
    this.#given.abort();
    this.#hangUp();
    this.#channel.close();
    this.#peer.close();
  }

  async #negotiate(iceServers: () => Promise<readonly RTCIceServer[]>): Promise<void> {
    this.#peer.setConfiguration({ iceServers: [...(await iceServers())] });
    await this.#peer.setLocalDescription();
    await this.#gathered();
    const answer = await this.#offer(this.#peer.localDescription?.sdp ?? '');
    if (answer !== null && !this.#closed) await this.#peer.setRemoteDescription({ type: 'answer', sdp: answer });
  }

  async #gathered(): Promise<void> {
    const peer = this.#peer;
    if (peer.iceGatheringState === 'complete') return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, GATHER_MS);
      peer.onicegatheringstatechange = () => {
        if (peer.iceGatheringState !== 'complete') return;
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** The answer's SDP; null if there is none, which has been told. */
  async #offer(sdp: string): Promise<string | null> {
    const form = new FormData();
    form.set('sdp', new Blob([sdp], { type: 'application/sdp' }));
    form.set('session', new Blob([JSON.stringify(this.#target.session)], { type: 'application/json' }));
    const url = `${this.#target.baseUrl}/v1/realtime/calls?include=timings`;
    let response: Response;
    try {
      response = await fetch(url, { method: 'POST', body: form, headers: this.#headers(), signal: this.#given.signal });
    } catch (error) {
      this.#end({ problem: { code: 'server-unreachable', detail: String(error) }, retry: true });
      return null;
    }
    const body = await response.text();
    if (!response.ok) {
      this.#end(endOfOffer(response.status, parseRefusal(body)));
      return null;
    }
    const location = response.headers.get('Location');
    this.#call = location === null ? null : new URL(location, url).href;
    if (this.#closed) this.#hangUp();
    return body;
  }

  #headers(): Record<string, string> {
    const { apiKey } = this.#target;
    return apiKey === null ? {} : { Authorization: `Bearer ${apiKey}` };
  }

  /** `keepalive` lets the request outlive a page that is being left. */
  #hangUp(): void {
    if (this.#call === null) return;
    const request = { method: 'POST', headers: this.#headers(), keepalive: true };
    void fetch(`${this.#call}/hangup`, request).catch(() => undefined); // the server notices by itself, later
    this.#call = null;
  }

  #receive(text: string): void {
    const incoming = this.#closed ? null : parseText(text);
    if (incoming === null) return;
    this.#error = errorIn(incoming) ?? this.#error;
    this.#events.event(incoming);
  }

  #opened(): void {
    clearTimeout(this.#connecting);
    const watch = new SilenceWatch();
    this.#looking = setInterval(async () => {
      const { network, packets } = inboundQuality(await this.#peer.getStats());
      const received = packets.received + (network.bytesReceived ?? 0);
      if (watch.look(received, performance.now())) this.#lose('the server is silent');
    }, LOOK_MS);
  }

  #lose(detail: string): void {
    this.#end(endOfCall(detail, this.#error));
  }

  #end(end: End): void {
    if (this.#closed) return;
    this.close();
    this.#events.ended(end);
  }
}
