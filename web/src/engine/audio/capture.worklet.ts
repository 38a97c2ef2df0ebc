/** Hands what comes in to the page as chunks of PCM. Silence where nothing is connected, so that time goes on. */

import { Capture } from './capture';
import { CAPTURE_PROCESSOR } from './messages';

const CHUNK_MS = 20;
const BLOCK = 128;

class CaptureProcessor extends AudioWorkletProcessor {
  readonly #capture = new Capture(sampleRate, CHUNK_MS);
  readonly #silence = new Float32Array(BLOCK);

  process(inputs: Float32Array[][]): boolean {
    for (const chunk of this.#capture.push(inputs[0]?.[0] ?? this.#silence, currentTime)) {
      this.port.postMessage(chunk, [chunk.pcm.buffer]);
    }
    return true;
  }
}

registerProcessor(CAPTURE_PROCESSOR, CaptureProcessor);
