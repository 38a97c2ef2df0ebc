// @openai/agents-realtime: RealtimeSession over its own WebSocket transport, with the settings it comes with.

import { RealtimeAgent, RealtimeSession, tool as makeTool } from '@openai/agents-realtime';
import { z } from 'zod';
import { Seen, check, duration, heard, main, matches, same, scenario, secondsOf, setup, sleep, speech } from './driver.mjs';

const seen = new Seen();
let session;

const EVENTS = [
  'agent_start',
  'agent_end',
  'agent_tool_start',
  'agent_tool_end',
  'audio_interrupted',
  'audio_stopped',
];

const named = (name, since = 0) => seen.until((event) => event.name === name, since);

/** A server event as the session passes it on. */
const server = async (type, since = 0) =>
  (await seen.until((event) => event.name === 'transport_event' && event.event.type === type, since)).event;

/** The session as the server has it, once its instructions are these. The SDK also sends updates of its own. */
const updated = async (instructions, since = 0) => {
  const matches = ({ name, event }) =>
    name === 'transport_event' && event.type === 'session.updated' && event.session.instructions === instructions;
  return (await seen.until(matches, since)).event.session;
};

function noErrors(since = 0) {
  const errors = seen.slice(since).filter((event) => event.name === 'error');
  check(errors.length === 0, `errors: ${JSON.stringify(errors)}`);
}

const textOf = (item) => item.content.map((part) => part.text ?? part.transcript ?? '').join(' ');

const saidLast = (role) => {
  const items = session.history.filter((item) => item.type === 'message' && item.role === role);
  return items.length > 0 ? textOf(items.at(-1)) : null;
};

async function say(part) {
  for await (const piece of speech(part)) {
    session.sendAudio(new Uint8Array(piece).buffer);
  }
}

async function answered(answer, since) {
  await named('agent_start', since);
  await named('audio_stopped', since);
  same((await named('agent_end', since)).args[2], answer);
  await seen.holds(() => matches(saidLast('assistant'), answer));
  const audio = seen.slice(since).filter((event) => event.name === 'audio');
  same(duration(audio.reduce((total, event) => total + event.bytes, 0)), secondsOf(answer));
  noErrors(since);
}

await main({
  async connect() {
    session = new RealtimeSession(new RealtimeAgent({ name: 'first', instructions: 'Be kind.' }), {
      transport: 'websocket',
    });
    for (const name of EVENTS) session.on(name, (...args) => seen.add({ name, args }));
    session.on('audio', (event) => seen.add({ name: 'audio', bytes: event.data.byteLength }));
    session.on('transport_event', (event) => seen.add({ name: 'transport_event', event }));
    session.on('history_updated', () => seen.add({ name: 'history_updated' }));
    session.on('error', (event) => seen.add({ name: 'error', error: event.error }));
    const url = `ws://${setup.http}/v1/realtime?model=gpt-realtime`;
    await session.connect({ apiKey: 'sk-local', url });
    same((await server('session.created')).session.type, 'realtime');
    await updated('Be kind.');
    noErrors();
  },

  async session_update() {
    const since = seen.length;
    await session.updateAgent(new RealtimeAgent({ name: 'second', instructions: 'Be brief.' }));
    same((await updated('Be brief.', since)).audio.input.turn_detection.interrupt_response, true);
    noErrors(since);
  },

  async spoken_turn() {
    const since = seen.length;
    await say('spoken');
    await answered(scenario.spoken.answer, since);
    await seen.holds(() => matches(saidLast('user'), scenario.spoken.transcript));
  },

  async text_turn() {
    const since = seen.length;
    session.sendMessage(scenario.text.prompt);
    await answered(scenario.text.answer, since);
  },

  async tool_call() {
    const { tool } = scenario;
    let since = seen.length;
    const calls = [];
    const weather = makeTool({
      name: tool.name,
      description: 'The weather in a city',
      parameters: z.object({ city: z.string() }),
      async execute(args) {
        calls.push(args);
        return tool.output;
      },
    });
    await session.updateAgent(new RealtimeAgent({ name: 'third', instructions: 'Use the tool.', tools: [weather] }));
    same(
      (await updated('Use the tool.', since)).tools.map((each) => each.name),
      [tool.name],
    );
    session.sendMessage(tool.prompt);
    await named('agent_tool_start', since);
    const end = await named('agent_tool_end', since);
    same([calls, end.args[3]], [[tool.arguments], tool.output]);
    since = seen.indexOf(end);
    await named('audio_stopped', since);
    await seen.holds(() => saidLast('assistant') === tool.answer);
    noErrors();
  },

  async interruption() {
    const { interruption } = scenario;
    const since = seen.length;
    session.sendMessage(interruption.prompt);
    await named('audio', since);
    await sleep(600);
    const speaking = say('interruption');
    const interrupted = await named('audio_interrupted', since);
    const truncated = await server('conversation.item.truncated', since);
    await server('conversation.item.retrieved', since);
    const shown = () => textOf(session.history.find((item) => item.itemId === truncated.item_id));
    await seen.holds(() => shown().split(' ').length < 10);
    heard(shown(), interruption.answer, 2, 9);
    await speaking;
    const after = seen.indexOf(interrupted);
    await seen.until((event) => event.name === 'agent_end' && event.args[2] === interruption.reply, after);
    await seen.holds(() => saidLast('assistant') === interruption.reply);
    noErrors(since);
  },

  async error() {
    const since = seen.length;
    session.transport.sendEvent({
      type: 'conversation.item.delete',
      item_id: 'item_nowhere',
      event_id: 'mine',
    });
    const { error } = (await named('error', since)).error;
    same([error.event_id, error.code], ['mine', 'item_delete_invalid_item_id']);
    await session.updateAgent(new RealtimeAgent({ name: 'fourth', instructions: 'Go on.' }));
    await updated('Go on.', since);
  },

  async close() {
    const closed = new Promise((resolve) => session.transport.on('disconnected', resolve));
    session.close();
    await closed;
    same(session.transport.status, 'disconnected');
  },
});
