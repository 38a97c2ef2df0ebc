/** The audio context, its worklets, and its clock. */

import type { Chunk } from './capture';
import captureWorklet from './capture.worklet.ts?worker&url';
import { CAPTURE_PROCESSOR, PLAYBACK_PROCESSOR } from './messages';
import playbackWorklet from './playback.worklet.ts?worker&url';

/** Two clocks of one device cannot differ by more: some browsers report nonsense before sound runs. */
const PLAUSIBLE_MS = 1000;

interface SinkContext extends AudioContext {
  setSinkId(id: string): Promise<void>;
}

function hasSink(context: AudioContext): context is SinkContext {
  return 'setSinkId' in context;
}

export class Sound {
  readonly context: AudioContext;
  #loaded: Promise<void> | null = null;

  /** Must be made in a click or key press, which is what allows sound. */
  constructor() {
    this.context = new AudioContext({ latencyHint: 'interactive' });
  }

  /** Ready to play and record. */
  async start(): Promise<void> {
    this.#loaded ??= Promise.all(
      [captureWorklet, playbackWorklet].map((url) => this.context.audioWorklet.addModule(url)),
    ).then(() => undefined);
    // Not waited for: where sound is not allowed yet, that is only settled by the next click.
    void this.context.resume();
    await this.#loaded;
  }

  get canChooseSpeaker(): boolean {
    return hasSink(this.context);
  }

  /** Empty: the system's default. */
  async setSpeaker(id: string): Promise<void> {
    if (hasSink(this.context)) await this.context.setSinkId(id);
  }

  /** A node that hears what is connected to it and hands it over as chunks. */
  tap(heard: (chunk: Chunk) => void): AudioWorkletNode {
    const node = new AudioWorkletNode(this.context, CAPTURE_PROCESSOR, {
      numberOfOutputs: 0,
      channelCount: 1,
      channelCountMode: 'explicit',
    });
    node.port.onmessage = (message: MessageEvent<Chunk>) => heard(message.data);
    return node;
  }

  /** A node that plays what it is sent. */
  player(): AudioWorkletNode {
    return new AudioWorkletNode(this.context, PLAYBACK_PROCESSOR, {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
  }

  /** The moment at which the context's time `seconds` passes, on the clock of `performance.now()`. */
  moment(seconds: number): number {
    return performance.now() + (seconds - this.context.currentTime) * 1000;
  }

  /** The moment at which what is rendered for `seconds` leaves the loudspeaker. */
  audible(seconds: number): number {
    const rendered = this.moment(seconds);
    const { contextTime = 0, performanceTime = 0 } = this.context.getOutputTimestamp();
    const precise = performanceTime + (seconds - contextTime) * 1000;
    const plausible = performanceTime > 0 && Math.abs(precise - rendered) < PLAUSIBLE_MS;
    return plausible ? precise : rendered + this.latencyMs;
  }

  /** From rendering to the loudspeaker. */
  get latencyMs(): number {
    return (this.context.outputLatency || this.context.baseLatency || 0) * 1000;
  }

  async close(): Promise<void> {
    await this.context.close();
  }
}
