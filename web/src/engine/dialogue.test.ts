import { beforeEach, describe, expect, it } from 'vitest';
import type { Notice, Settings } from './api';
import { SentClock } from './audio/gate';
import { turnsOf } from './conversation/entries';
import { Dialogue } from './dialogue';
import type { ClientEvent, ResponseObject, ServerEvent, SessionObject } from './protocol/events';
import { DEFAULTS } from './settings';

/** Everything around the dialogue, as a test can see and set it. */
let sent: ClientEvent[];
let stops: number;
let now: number;
let playing: boolean;
let local: boolean;
let settings: Settings;
let notices: Notice[];
let pending: readonly string[];
let clock: SentClock;
let dialogue: Dialogue;

const session: SessionObject = {
  id: 's1',
  model: 'starter',
  expires_at: 1_790_000_000,
  instructions: '',
  output_modalities: ['audio'],
  audio: {
    input: {
      transcription: { language: null },
      turn_detection: { type: 'server_vad', threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 500 },
    },
    output: { voice: 'joe', speed: 1 },
  },
};

beforeEach(() => {
  sent = [];
  stops = 0;
  now = 0;
  playing = false;
  local = true;
  settings = DEFAULTS;
  notices = [];
  pending = [];
  clock = new SentClock(24_000);
  dialogue = new Dialogue({
    send: (event) => sent.push(event),
    local: () => local,
    playing: () => playing,
    stop: () => {
      stops++;
    },
    settings: () => settings,
    sent: () => clock,
    now: () => now,
    tools: [{ name: 'time', description: '', parameters: {}, run: async () => '12:00' }],
    changed: () => undefined,
    session: (report) => {
      pending = report.pending ?? pending;
    },
    vad: () => undefined,
    notice: (notice) => notices.push(notice),
  });
});

function greet(object: SessionObject = session): void {
  dialogue.receive({ type: 'session.created', session: object });
}

function types(): string[] {
  return sent.map(({ type }) => type);
}

/** What is sent from here on. */
function fresh(): void {
  sent = [];
}

function created(id = 'r1'): void {
  dialogue.receive({ type: 'response.created', response: { id, status: 'in_progress' } });
}

function done(id = 'r1', more: Partial<ResponseObject> = {}): void {
  dialogue.receive({ type: 'response.done', response: { id, status: 'completed', ...more } });
}

function speechStarted(at = 0): void {
  dialogue.receive({ type: 'input_audio_buffer.speech_started', audio_start_ms: at, item_id: 'u1' });
}

/** An answer `a1` of the response `r1` that plays. */
function answer(): void {
  created();
  const item = { id: 'a1', type: 'message', role: 'assistant', content: [] } as const;
  dialogue.receive({ type: 'response.output_item.added', response_id: 'r1', item });
  const word = { response_id: 'r1', item_id: 'a1', delta: 'One two three four.' };
  dialogue.receive({ type: 'response.output_audio_transcript.delta', ...word });
  dialogue.admit('a1', 'r1', 2000);
  playing = true;
}

describe('speech over an answer', () => {
  it('stops what plays here and tells how much was heard', () => {
    greet();
    answer();
    fresh();
    speechStarted();
    expect(stops).toBe(1);
    dialogue.cut('a1', 812.7);
    expect(sent).toEqual([{ type: 'conversation.item.truncate', item_id: 'a1', content_index: 0, audio_end_ms: 812 }]);
    expect(turnsOf(dialogue.state.entries)).toMatchObject([
      { kind: 'assistant', interrupted: true },
      { kind: 'user', status: 'speaking' },
    ]);
  });

  it('stops an answer that is complete and still plays', () => {
    greet();
    answer();
    done();
    speechStarted();
    expect(stops).toBe(1);
  });

  it('lets no sound of that answer in any more', () => {
    greet();
    answer();
    speechStarted();
    expect(dialogue.admit('a1', 'r1', 200)).toBe(false);
    expect(dialogue.admit('a2', 'r2', 200)).toBe(true);
  });

  it('asks the server which words were heard', () => {
    greet();
    answer();
    speechStarted();
    dialogue.cut('a1', 800);
    fresh();
    dialogue.receive({ type: 'conversation.item.truncated', item_id: 'a1', audio_end_ms: 800 });
    expect(sent).toEqual([{ type: 'conversation.item.retrieve', item_id: 'a1' }]);
  });

  it('leaves everything to a server that plays the sound itself', () => {
    local = false;
    greet();
    answer();
    fresh();
    speechStarted();
    dialogue.cut('a1', 800);
    expect([stops, sent]).toEqual([0, []]);
  });

  it('leaves an answer alone that must not be interrupted', () => {
    const turn_detection = { type: 'server_vad', interrupt_response: false } as const;
    const deaf = { ...session, audio: { ...session.audio, input: { ...session.audio.input, turn_detection } } };
    greet(deaf);
    answer();
    speechStarted();
    expect(stops).toBe(0);
  });

  it('does nothing when there is no answer', () => {
    greet();
    speechStarted();
    expect(stops).toBe(0);
  });

  it('is timed from its onset in the sound that was sent', () => {
    greet();
    clock.sent(240_000, 100);
    answer();
    now = 5250;
    speechStarted(4600); // the onset is 300 ms later: captured at 5000
    dialogue.heard(5300, { first: 5250, last: 5290 });
    dialogue.heard(5400, null);
    expect(dialogue.latency.report().bargeInStop).toBe(290);
  });
});

describe('the command to stop', () => {
  it('cancels the answer under way and stops what plays here', () => {
    greet();
    answer();
    fresh();
    expect(dialogue.interrupt()).toBe(true);
    expect(sent).toEqual([{ type: 'response.cancel', response_id: 'r1' }]);
    expect(stops).toBe(1);
  });

  it('has a server that plays the sound clear it', () => {
    local = false;
    greet();
    answer();
    done();
    fresh();
    dialogue.interrupt();
    expect(types()).toEqual(['output_audio_buffer.clear']);
  });

  it('is nothing when nobody talks', () => {
    greet();
    fresh();
    expect(dialogue.interrupt()).toBe(false);
    expect([stops, sent]).toEqual([0, []]);
  });

  it('that comes too late is no fault', () => {
    greet();
    dialogue.receive({ type: 'error', error: { code: 'response_cancel_not_active', message: 'x' } });
    expect(notices).toEqual([]);
  });
});

describe('what is written', () => {
  it('is an item and asks for an answer', () => {
    greet();
    fresh();
    dialogue.say('Hello');
    expect(sent).toMatchObject([
      { type: 'conversation.item.create', item: { role: 'user', content: [{ type: 'input_text', text: 'Hello' }] } },
      { type: 'response.create' },
    ]);
    expect(dialogue.state.awaiting).toBe(true);
  });

  it('waits for the end of the answer that it interrupts', () => {
    greet();
    answer();
    fresh();
    dialogue.say('Hello');
    expect(types()).toEqual(['response.cancel', 'conversation.item.create']);
    done('r1', { status: 'cancelled' });
    expect(types().at(-1)).toBe('response.create');
    done('r2');
    expect(types().filter((type) => type === 'response.create')).toHaveLength(1);
  });

  it('is answered even if the server was quicker with an answer of its own', () => {
    greet();
    fresh();
    dialogue.say('Hello');
    created('r2');
    dialogue.receive({ type: 'error', error: { code: 'conversation_already_has_active_response', message: 'x' } });
    done('r2');
    expect(types().filter((type) => type === 'response.create')).toHaveLength(2);
    expect(notices).toEqual([]);
  });
});

describe('latency', () => {
  const stopped: ServerEvent = { type: 'input_audio_buffer.speech_stopped', audio_end_ms: 2000, item_id: 'u1' };

  it('counts from the end of speech: the decision less its silence', () => {
    greet();
    clock.sent(48_000, 1000);
    now = 3020;
    dialogue.receive(stopped);
    created();
    dialogue.heard(3300, { first: 3250, last: 3300 });
    expect(dialogue.latency.report().turns).toEqual([{ responseId: 'r1', ms: 750, basis: 'vad' }]);
  });

  it('takes the measure of the server when it comes', () => {
    greet();
    now = 3020;
    dialogue.receive(stopped);
    created();
    dialogue.heard(3300, { first: 3250, last: 3300 });
    done('r1', { timings: { turn: { stopped: 544 } } });
    expect(dialogue.latency.report()).toMatchObject({ last: 774, turns: [{ basis: 'server' }] });
  });
});

describe('settings', () => {
  it('are told to a new session where it differs', () => {
    settings = { ...DEFAULTS, speed: 1.2 };
    greet();
    expect(sent[0]).toMatchObject({ type: 'session.update', session: { audio: { output: { speed: 1.2 } } } });
  });

  it('that are refused are told once, to the person too', () => {
    greet();
    fresh();
    settings = { ...DEFAULTS, speed: 9 };
    dialogue.settingsChanged();
    const [update] = sent;
    const error = { code: 'invalid_value', message: 'Too fast.', event_id: update?.event_id ?? '' };
    dialogue.receive({ type: 'error', error });
    done();
    expect(types()).toEqual(['session.update']);
    expect(notices).toEqual([{ code: 'settings-refused', detail: 'Too fast.' }]);
  });

  it('that changed while an earlier change was on its way win', () => {
    greet();
    fresh();
    settings = { ...DEFAULTS, instructions: 'A' };
    dialogue.settingsChanged();
    settings = DEFAULTS;
    dialogue.settingsChanged();
    dialogue.receive({ type: 'session.updated', session: { ...session, instructions: 'A' } });
    expect(sent).toMatchObject([{ session: { instructions: 'A' } }, { session: { instructions: '' } }]);
  });

  it('that have to wait for the end of an answer do', () => {
    greet();
    created();
    fresh();
    settings = { ...DEFAULTS, speed: 1.2 };
    dialogue.settingsChanged();
    expect(sent).toEqual([]);
    done();
    expect(types()).toEqual(['session.update']);
  });

  it('that have to wait for another session are pending', () => {
    greet();
    answer();
    settings = { ...DEFAULTS, voice: 'amy' };
    dialogue.settingsChanged();
    expect(pending).toEqual(['voice']);
    dialogue.disconnected();
    fresh();
    greet({ ...session, id: 's2' });
    expect(sent[0]).toMatchObject({ type: 'session.update', session: { audio: { output: { voice: 'amy' } } } });
    expect(pending).toEqual([]);
  });
});

describe('a new session', () => {
  it('is told the conversation, and answers what was not answered', () => {
    greet();
    dialogue.say('Hello');
    dialogue.disconnected();
    fresh();
    greet({ ...session, id: 's2' });
    expect(sent).toMatchObject([
      { type: 'session.update' },
      { type: 'conversation.item.create', previous_item_id: 'root' },
      { type: 'response.create' },
    ]);
  });

  it('is asked for nothing when everything was answered', () => {
    greet();
    dialogue.say('Hello');
    answer();
    done();
    dialogue.cut('a1', 1000);
    dialogue.disconnected();
    fresh();
    greet({ ...session, id: 's2' });
    expect(types()).toEqual(['session.update', 'conversation.item.create', 'conversation.item.create']);
  });
});

describe('a function call', () => {
  const item = { id: 'f1', type: 'function_call', call_id: 'c1', name: 'time', arguments: '{}' } as const;

  it('is carried out when its response is done, and its result is answered', async () => {
    greet();
    created();
    dialogue.receive({
      type: 'response.output_item.done',
      response_id: 'r1',
      item: { ...item, status: 'completed' },
    });
    fresh();
    done();
    await expect.poll(types).toEqual(['conversation.item.create', 'response.create']);
    expect(sent[0]).toMatchObject({ item: { type: 'function_call_output', call_id: 'c1', output: '"12:00"' } });
  });

  it('that was cut off is not', async () => {
    greet();
    created();
    dialogue.receive({
      type: 'response.output_item.done',
      response_id: 'r1',
      item: { ...item, status: 'incomplete' },
    });
    fresh();
    done();
    await Promise.resolve();
    expect(sent).toEqual([]);
  });
});

it('a response that fails is told', () => {
  greet();
  created();
  done('r1', { status: 'failed', status_details: { error: { code: 'stage_died', message: 'The stage died.' } } });
  expect(notices).toEqual([{ code: 'response-failed', detail: 'The stage died.' }]);
});

it('a conversation can be forgotten, by the server too', () => {
  greet();
  dialogue.say('Hello');
  const [entry] = dialogue.state.entries;
  fresh();
  dialogue.forget();
  expect(sent).toEqual([{ type: 'conversation.item.delete', item_id: entry?.id }]);
  expect(dialogue.state.entries).toEqual([]);
});
