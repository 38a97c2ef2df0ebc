/** The engine for tests in a real browser: an agent, and a microphone into which a test can speak. */

import { type Agent, type AgentOptions, type AgentState, createAgent, type Notice } from '../../../src/engine';

interface Bench {
  agent: Agent;
  notices: Notice[];
  /** The state each time that it changed, without what changes all the time. */
  history: Pick<AgentState, 'activity' | 'connection'>[];
  /** Resolves when `test` holds of the state. */
  until(test: (state: AgentState) => boolean, seconds?: number): Promise<AgentState>;
  /** From now on the microphone is silent, except for what is said by `speak`. */
  scriptMicrophone(): Promise<void>;
  /** Says a recording (WAV, base64) into the scripted microphone; resolves at its end. */
  speak(wav: string): Promise<void>;
}

declare global {
  interface Window {
    start(options: AgentOptions): void;
    bench: Bench;
  }
}

function bytes(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0)).buffer;
}

function bench(agent: Agent): Bench {
  const notices: Notice[] = [];
  const history: Bench['history'] = [];
  let mouth: { context: AudioContext; out: MediaStreamAudioDestinationNode } | null = null;
  agent.on('notice', (notice) => notices.push(notice));
  agent.on('state', ({ activity, connection }) => {
    const last = history.at(-1);
    if (last?.activity !== activity || last.connection !== connection) history.push({ activity, connection });
  });
  return {
    agent,
    notices,
    history,
    until(test, seconds = 30) {
      return new Promise((resolve, reject) => {
        const off = agent.on('state', (state) => {
          if (test(state)) done(() => resolve(state));
        });
        const timer = setTimeout(() => done(() => reject(new Error(JSON.stringify(agent.state)))), seconds * 1000);
        const done = (settle: () => void) => {
          off();
          clearTimeout(timer);
          settle();
        };
        if (test(agent.state)) done(() => resolve(agent.state));
      });
    },
    async scriptMicrophone() {
      const context = new AudioContext();
      await context.resume();
      const out = context.createMediaStreamDestination();
      mouth = { context, out };
      // A copy each time: whoever is done with a microphone stops its tracks.
      navigator.mediaDevices.getUserMedia = async () => out.stream.clone();
    },
    async speak(wav) {
      if (mouth === null) throw new Error('the microphone is not scripted');
      const { context, out } = mouth;
      const source = new AudioBufferSourceNode(context, { buffer: await context.decodeAudioData(bytes(wav)) });
      source.connect(out);
      source.start();
      await new Promise((resolve) => {
        source.onended = resolve;
      });
    },
  };
}

window.start = (options) => {
  window.bench = bench(createAgent(options));
};
