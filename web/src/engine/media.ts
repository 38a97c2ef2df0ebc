/** The sound of one page: microphone, loudspeaker, levels, recording, and the devices they use. */

import type { Levels, PlaybackReport, Problem } from './api';
import type { Chunk } from './audio/capture';
import { devices, rememberDevices, rememberedDevices } from './audio/devices';
import { microphoneProblem, openMicrophone } from './audio/microphone';
import { LocalOutput, type OutputEvents } from './audio/output';
import { loudSpan, RATE, rms } from './audio/pcm';
import { Sound } from './audio/sound';
import { Recorder } from './audio/wav';
import type { Store } from './store';

/** -50 dB of full scale: softer is not heard as speech. */
const AUDIBLE = 0.003;

export interface MediaEvents extends OutputEvents {
  /** 20 ms of the microphone; `moment`: when its first sample was captured. */
  captured(pcm: Int16Array<ArrayBuffer>, moment: number): void;
  /** A piece of the assistant's voice left the loudspeaker, until `end`; `loud`: where it was audible. */
  heard(end: number, loud: { first: number; last: number } | null): void;
  /** Another microphone is in use; null: none. */
  switched(track: MediaStreamTrack | null): void;
}

export class Media {
  readonly #store: Store;
  readonly #events: MediaEvents;
  readonly #storage: Storage | null;
  readonly #player = new Audio();
  readonly #refresh = () => void this.listDevices();
  #sound: Sound | null = null;
  #stream: MediaStream | null = null;
  #source: MediaStreamAudioSourceNode | null = null;
  #remote: MediaStreamAudioSourceNode | null = null;
  #microphoneTap: AudioWorkletNode | null = null;
  #assistantTap: AudioWorkletNode | null = null;
  #output: LocalOutput | null = null;
  #recorder: Recorder | null = null;
  #levels: Levels = { microphone: 0, assistant: 0 };
  /** Whether the microphone is open: what is not sent is neither shown nor recorded. */
  #open = true;
  #listening = true;

  constructor(store: Store, storage: Storage | null, events: MediaEvents) {
    this.#store = store;
    this.#storage = storage;
    this.#events = events;
    navigator.mediaDevices?.addEventListener('devicechange', this.#refresh);
  }

  get levels(): Levels {
    return this.#levels;
  }

  /** Whether sound can be played. */
  get ready(): boolean {
    return this.#assistantTap !== null;
  }

  get track(): MediaStreamTrack | null {
    return this.#stream?.getAudioTracks()[0] ?? null;
  }

  /** The part of `start` that must happen in the click itself. */
  unlock(): void {
    this.#sound ??= new Sound();
    this.#store.patch('devices', { canChooseSpeaker: this.#sound.canChooseSpeaker });
  }

  async start(): Promise<void> {
    const sound = this.#sound;
    if (sound === null) return;
    await sound.start();
    this.#microphoneTap ??= sound.tap((chunk) => this.#captured(sound, chunk));
    this.#assistantTap ??= sound.tap((chunk) => this.#heard(sound, chunk));
    const { speaker } = this.#store.state.devices;
    if (speaker !== null) await this.setSpeaker(speaker);
  }

  /** null: it is on. */
  async openMicrophone(): Promise<Problem | null> {
    this.#store.patch('microphone', { status: 'requesting', problem: null });
    try {
      const stream = await openMicrophone(this.#store.state.devices.microphone);
      this.#use(stream);
    } catch (error) {
      const problem = microphoneProblem(error);
      this.#store.patch('microphone', { status: 'off', problem });
      return problem;
    }
    void this.listDevices();
    return null;
  }

  closeMicrophone(): void {
    this.#release();
    this.#store.patch('microphone', { status: 'off', vad: 'off', held: false });
  }

  /** `open`: whether the person can be heard. `listening`: whether the page itself still gets their sound. */
  setOpen(open: boolean, listening: boolean): void {
    this.#open = open;
    this.#listening = listening;
    if (this.track !== null) this.track.enabled = listening;
  }

  /** The page plays what it is sent. */
  playLocally(): LocalOutput | null {
    if (this.#sound === null || this.#assistantTap === null) return null;
    this.stopOutput();
    this.#output = new LocalOutput(this.#sound, this.#events);
    this.#output.node.connect(this.#assistantTap);
    return this.#output;
  }

  /** The browser plays a remote track. */
  playRemote(stream: MediaStream): void {
    this.stopOutput();
    // An element, because echo cancellation and the choice of a loudspeaker are made for it.
    this.#player.srcObject = stream;
    void this.#player.play().catch(() => undefined); // it was allowed by the click that connected
    if (this.#sound === null || this.#assistantTap === null) return;
    this.#remote = this.#sound.context.createMediaStreamSource(stream);
    this.#remote.connect(this.#assistantTap);
  }

  stopOutput(): void {
    this.#output?.close();
    this.#output = null;
    this.#remote?.disconnect();
    this.#remote = null;
    this.#player.srcObject = null;
    const silent: Partial<PlaybackReport> = { playing: false, bufferedMs: 0 };
    this.#store.patch('playback', silent);
  }

  async listDevices(): Promise<void> {
    this.#store.patch('devices', { ...(await devices()) });
  }

  /** What was chosen at an earlier visit. */
  recall(): void {
    this.#store.patch('devices', { ...rememberedDevices(this.#storage) });
  }

  async setMicrophone(id: string | null): Promise<void> {
    this.#store.patch('devices', { microphone: id });
    this.#remember();
    if (this.#stream === null) return;
    const problem = await this.openMicrophone();
    if (problem !== null) this.#lost(problem);
  }

  async setSpeaker(id: string | null): Promise<void> {
    this.#store.patch('devices', { speaker: id });
    this.#remember();
    try {
      await Promise.all([this.#sound?.setSpeaker(id ?? ''), this.#player.setSinkId?.(id ?? '')]);
    } catch (error) {
      this.#store.emit('notice', { code: 'speaker-failed', detail: String(error) });
    }
  }

  startRecording(): void {
    if (this.#sound === null || this.#recorder !== null) return;
    this.#recorder = new Recorder(this.#sound.context.currentTime);
    this.#store.patch('recording', { active: true, seconds: 0 });
  }

  stopRecording(): Blob | null {
    const recorder = this.#recorder;
    this.#recorder = null;
    this.#store.patch('recording', { active: false });
    return recorder === null || recorder.seconds === 0 ? null : new Blob([recorder.wav()], { type: 'audio/wav' });
  }

  async dispose(): Promise<void> {
    navigator.mediaDevices?.removeEventListener('devicechange', this.#refresh);
    this.closeMicrophone();
    this.stopOutput();
    await this.#sound?.close();
  }

  #remember(): void {
    const { microphone, speaker } = this.#store.state.devices;
    rememberDevices(this.#storage, { microphone, speaker });
  }

  #use(stream: MediaStream): void {
    this.#release();
    this.#stream = stream;
    const { track } = this;
    if (track !== null) {
      track.enabled = this.#listening;
      // Not told when this page itself stops the track.
      track.onended = () => void this.#vanished();
    }
    if (this.#sound !== null && this.#microphoneTap !== null) {
      this.#source = this.#sound.context.createMediaStreamSource(stream);
      this.#source.connect(this.#microphoneTap);
    }
    this.#store.patch('microphone', { status: 'on', problem: null });
    this.#events.switched(track);
  }

  #release(): void {
    this.#source?.disconnect();
    this.#source = null;
    for (const track of this.#stream?.getTracks() ?? []) track.stop();
    this.#stream = null;
    this.#levels = { ...this.#levels, microphone: 0 };
  }

  /** The device was pulled out: go on with whatever the system offers. */
  async #vanished(): Promise<void> {
    this.#store.patch('devices', { microphone: null });
    const problem = await this.openMicrophone();
    if (problem !== null) this.#lost(problem);
    else this.#store.emit('notice', { code: 'microphone-switched', detail: this.track?.label ?? '' });
  }

  #lost(problem: Problem): void {
    this.#release();
    this.#store.patch('microphone', { status: 'lost', vad: 'off', problem });
    this.#store.emit('notice', { code: 'microphone-lost', detail: problem.detail });
    this.#events.switched(null);
  }

  #captured(sound: Sound, chunk: Chunk): void {
    if (this.#stream === null) return;
    this.#levels = { ...this.#levels, microphone: this.#open ? rms(chunk.pcm) : 0 };
    if (this.#open) this.#record('left', chunk);
    this.#events.captured(chunk.pcm, sound.moment(chunk.time));
  }

  #heard(sound: Sound, chunk: Chunk): void {
    this.#levels = { ...this.#levels, assistant: rms(chunk.pcm) };
    this.#record('right', chunk);
    const span = loudSpan(chunk.pcm, AUDIBLE);
    const at = (samples: number) => sound.audible(chunk.time + samples / RATE);
    this.#events.heard(at(chunk.pcm.length), span && { first: at(span.first), last: at(span.last) });
  }

  #record(side: 'left' | 'right', chunk: Chunk): void {
    if (this.#recorder === null || this.#recorder.full) return;
    // A copy: the transport may still change or hand over the chunk's own memory.
    this.#recorder.add(side, { pcm: chunk.pcm.slice(), time: chunk.time });
    const seconds = Math.floor(this.#recorder.seconds);
    this.#store.patch('recording', { seconds });
  }
}
