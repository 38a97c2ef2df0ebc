// openai-node: OpenAIRealtimeWS, which insists on TLS.

import OpenAI from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { RATE, Seen, check, duration, heard, main, same, scenario, secondsOf, setup, speech } from './driver.mjs';

const seen = new Seen();
const failures = [];
let realtime;

const kind = (type, since = 0) => seen.until((event) => event.type === type, since);

const bytesOf = (events) =>
  events
    .filter((event) => event.type === 'response.output_audio.delta')
    .reduce((total, event) => total + Buffer.from(event.delta, 'base64').length, 0);

async function say(part) {
  for await (const piece of speech(part)) {
    realtime.send({ type: 'input_audio_buffer.append', audio: piece.toString('base64') });
  }
}

function ask(prompt) {
  const content = [{ type: 'input_text', text: prompt }];
  realtime.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
  realtime.send({ type: 'response.create' });
}

async function answered(answer, since) {
  const { response } = await kind('response.done', since);
  same(response.status, 'completed');
  same(
    response.output.flatMap((item) => item.content.map((part) => part.transcript)),
    [answer],
  );
  check(response.usage.total_tokens > 0, 'no usage');
  const events = seen.slice(since).filter((event) => event.response_id === response.id);
  const words = events.filter((event) => event.type === 'response.output_audio_transcript.delta');
  same(words.map((event) => event.delta).join(''), answer);
  same(duration(bytesOf(events)), secondsOf(answer));
}

await main({
  async connect() {
    const client = new OpenAI({ apiKey: 'sk-local', baseURL: `https://${setup.https}/v1` });
    realtime = new OpenAIRealtimeWS({ model: 'gpt-realtime' }, client);
    realtime.on('event', (event) => seen.add(event));
    realtime.on('error', (error) => failures.push(error));
    const { session } = await kind('session.created');
    same([session.type, session.audio.output.format.rate], ['realtime', RATE]);
  },

  async session_update() {
    const turn_detection = { type: 'server_vad', silence_duration_ms: 400 };
    const input = { transcription: { model: 'whisper-1' }, turn_detection };
    const session = { type: 'realtime', instructions: 'Be brief.', audio: { input } };
    realtime.send({ type: 'session.update', session });
    const updated = (await kind('session.updated')).session;
    const detection = updated.audio.input.turn_detection;
    same(
      [updated.instructions, detection.silence_duration_ms, detection.prefix_padding_ms],
      ['Be brief.', 400, 300],
    );
  },

  async spoken_turn() {
    const since = seen.length;
    await say('spoken');
    const started = await kind('input_audio_buffer.speech_started', since);
    const stopped = await kind('input_audio_buffer.speech_stopped', since);
    const committed = await kind('input_audio_buffer.committed', since);
    same([stopped.item_id, committed.item_id], [started.item_id, started.item_id]);
    const transcription = await kind('conversation.item.input_audio_transcription.completed', since);
    same([transcription.item_id, transcription.transcript], [started.item_id, scenario.spoken.transcript]);
    await answered(scenario.spoken.answer, since);
  },

  async text_turn() {
    const since = seen.length;
    ask(scenario.text.prompt);
    await answered(scenario.text.answer, since);
  },

  async tool_call() {
    const { tool } = scenario;
    const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
    const tools = [{ type: 'function', name: tool.name, description: 'The weather in a city', parameters }];
    let since = seen.length;
    realtime.send({ type: 'session.update', session: { type: 'realtime', tools, tool_choice: 'auto' } });
    same(
      (await kind('session.updated', since)).session.tools.map((each) => each.name),
      [tool.name],
    );
    ask(tool.prompt);
    const call = await kind('response.function_call_arguments.done', since);
    same([call.name, JSON.parse(call.arguments)], [tool.name, tool.arguments]);
    const { response } = await kind('response.done', since);
    same(
      response.output.map((item) => [item.type, item.call_id]),
      [['function_call', call.call_id]],
    );
    since = seen.length;
    const item = { type: 'function_call_output', call_id: call.call_id, output: tool.output };
    realtime.send({ type: 'conversation.item.create', item });
    realtime.send({ type: 'response.create' });
    await answered(tool.answer, since);
  },

  async interruption() {
    const { interruption } = scenario;
    const since = seen.length;
    ask(interruption.prompt);
    await seen.holds(() => duration(bytesOf(seen.slice(since))) > 1);
    const speaking = say('interruption');
    await kind('input_audio_buffer.speech_started', since);
    const done = await kind('response.done', since);
    same([done.response.status, done.response.status_details.reason], ['cancelled', 'turn_detected']);
    const item_id = done.response.output[0].id;
    realtime.send({ type: 'conversation.item.truncate', item_id, content_index: 0, audio_end_ms: 1000 });
    const truncated = await kind('conversation.item.truncated', since);
    same([truncated.item_id, truncated.audio_end_ms], [item_id, 1000]);
    realtime.send({ type: 'conversation.item.retrieve', item_id });
    const { item } = await kind('conversation.item.retrieved', since);
    heard(item.content[0].transcript, interruption.answer, 3, 4);
    await speaking;
    await answered(interruption.reply, seen.indexOf(done) + 1);
  },

  async error() {
    const [since, before] = [seen.length, failures.length];
    realtime.send({ type: 'conversation.item.delete', item_id: 'item_nowhere', event_id: 'mine' });
    await kind('error', since);
    same(
      failures.slice(before).map(({ error }) => [error.event_id, error.code]),
      [['mine', 'item_delete_invalid_item_id']],
    );
    realtime.send({ type: 'session.update', session: { type: 'realtime', instructions: '' } });
    same((await kind('session.updated', since)).session.instructions, '');
  },

  async close() {
    const closed = new Promise((resolve) => realtime.socket.on('close', resolve));
    realtime.close();
    same(await closed, 1000);
  },
});
