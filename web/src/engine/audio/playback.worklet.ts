/** Plays what the page sends, and reports how far it has come. */

import { PLAYBACK_PROCESSOR, type PlaybackCommand, type PlaybackReport } from './messages';
import { Playback } from './playback';

const REPORT_S = 0.1;

class PlaybackProcessor extends AudioWorkletProcessor {
  readonly #playback = new Playback(sampleRate);
  #reportAt = 0;

  constructor() {
    super();
    this.port.onmessage = (message: MessageEvent<PlaybackCommand>) => this.#obey(message.data);
  }

  process(_inputs: Float32Array[][], outputs: Float32Array[][]): boolean {
    const output = outputs[0]?.[0];
    if (output !== undefined) this.#playback.render(output);
    if (currentTime >= this.#reportAt) this.#report();
    return true;
  }

  #obey(command: PlaybackCommand): void {
    switch (command.type) {
      case 'push':
        this.#playback.push(command.item, command.pcm);
        break;
      case 'end':
        this.#playback.end(command.item);
        break;
      case 'clear':
        this.#tell({ type: 'cleared', cuts: this.#playback.clear() });
        this.#report();
        break;
    }
  }

  #report(): void {
    this.#reportAt = currentTime + REPORT_S;
    this.#tell({ type: 'status', status: this.#playback.status() });
  }

  #tell(report: PlaybackReport): void {
    this.port.postMessage(report);
  }
}

registerProcessor(PLAYBACK_PROCESSOR, PlaybackProcessor);
