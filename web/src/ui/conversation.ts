import { useEffect, useRef } from 'preact/hooks';
import type { Agent, ConnectOptions, TransportKind } from '../engine/api';
import { useStable } from './hooks';

/** What the buttons of the page do with the agent, beyond what it does in one command. */
export interface Conversation {
  readonly start: (microphone: boolean) => void;
  /** Once more, as it was last tried. */
  readonly retry: () => void;
  /** Says it in writing, and connects for that if need be. */
  readonly say: (text: string) => void;
  /** Connects by another transport; the conversation goes on. */
  readonly reconnectBy: (transport: TransportKind) => void;
  /** Forgets what was said and begins anew. */
  readonly anew: () => void;
}

/** `transport`: with which connections are made from now on. */
export function useConversation(agent: Agent, transport: TransportKind): Conversation {
  const microphone = useRef(true);
  const connect = useStable((options: Partial<ConnectOptions>) =>
    agent.connect({ transport, microphone: microphone.current, ...options }),
  );
  useEffect(() => () => agent.disconnect(), [agent]);
  return {
    start: useStable((wanted) => {
      microphone.current = wanted;
      // From typing to talking the same conversation goes on in a new connection.
      if (agent.state.connection.phase === 'live') agent.disconnect();
      void connect({});
    }),
    retry: useStable(() => {
      if (agent.state.connection.phase === 'reconnecting') agent.retryNow();
      else void connect({});
    }),
    say: useStable(async (text) => {
      if (agent.state.connection.phase !== 'live') {
        microphone.current = false;
        await connect({});
      }
      if (agent.state.connection.phase === 'live') agent.sendText(text);
    }),
    reconnectBy: useStable((wanted) => {
      if (agent.state.connection.phase === 'live') agent.disconnect();
      void connect({ transport: wanted });
    }),
    anew: useStable(() => {
      agent.clearConversation();
      void connect({ resume: false });
    }),
  };
}
