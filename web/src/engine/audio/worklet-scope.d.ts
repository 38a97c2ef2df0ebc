/** What the audio worklets' global scope has (Web Audio API 1.32.3) and TypeScript's DOM types lack. */

declare const currentTime: number;
declare const sampleRate: number;

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}

declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;
