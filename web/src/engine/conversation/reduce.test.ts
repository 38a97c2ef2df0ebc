import { describe, expect, it } from 'vitest';
import type { Turn } from '../api';
import type { Item, ResponseObject, ServerEvent } from '../protocol/events';
import { turnsOf } from './entries';
import { type Action, type Conversation, EMPTY, reduce } from './reduce';

const TRANSCRIPTION = 'conversation.item.input_audio_transcription';

function server(event: ServerEvent): Action {
  return { type: 'server', event, at: 5 };
}

function run(...actions: (Action | ServerEvent)[]): Conversation {
  return actions.reduce<Conversation>((state, one) => reduce(state, isAction(one) ? one : server(one)), EMPTY);
}

function isAction(one: Action | ServerEvent): one is Action {
  return !/[._]/.test(one.type) || one.type === 'disconnected';
}

function turns(...actions: (Action | ServerEvent)[]): readonly Turn[] {
  return turnsOf(run(...actions).entries);
}

const began: ServerEvent = { type: 'input_audio_buffer.speech_started', audio_start_ms: 0, item_id: 'u1' };
const stopped: ServerEvent = { type: 'input_audio_buffer.speech_stopped', audio_end_ms: 900, item_id: 'u1' };
const committed: ServerEvent = { type: 'input_audio_buffer.committed', item_id: 'u1' };

function heard(transcript: string): ServerEvent {
  return { type: `${TRANSCRIPTION}.completed`, item_id: 'u1', transcript };
}

function created(id = 'r1'): ServerEvent {
  return { type: 'response.created', response: { id, status: 'in_progress' } };
}

function done(status: ResponseObject['status'] = 'completed', id = 'r1'): ServerEvent {
  return { type: 'response.done', response: { id, status } };
}

function message(id: string): Item {
  return { id, type: 'message', role: 'assistant', content: [] };
}

const answer: ServerEvent = { type: 'response.output_item.added', response_id: 'r1', item: message('a1') };

function word(delta: string): ServerEvent {
  return { type: 'response.output_audio_transcript.delta', response_id: 'r1', item_id: 'a1', delta };
}

function audio(ms: number): Action {
  return { type: 'audio', itemId: 'a1', responseId: 'r1', ms, at: 5 };
}

function played(ms: number): Action {
  return { type: 'played', itemId: 'a1', ms };
}

const audioDone: ServerEvent = { type: 'response.output_audio.done', response_id: 'r1', item_id: 'a1' };
const spoken = [created(), answer, word('One two '), word('three four.'), audio(2000), audioDone];

describe('what the person says', () => {
  it('appears when they begin, and becomes final with its words', () => {
    expect(turns(began)).toMatchObject([{ kind: 'user', status: 'speaking', text: '', at: 5 }]);
    expect(turns(began, stopped)).toMatchObject([{ status: 'transcribing' }]);
    const partial: ServerEvent = { type: `${TRANSCRIPTION}.delta`, item_id: 'u1', delta: 'What is' };
    expect(turns(began, partial, stopped, committed)).toMatchObject([{ status: 'transcribing', text: 'What is' }]);
    expect(turns(began, stopped, committed, heard('What is it?'))).toMatchObject([
      { status: 'final', text: 'What is it?', source: 'speech' },
    ]);
  });

  it('goes on when they speak again before the turn is decided', () => {
    expect(turns(began, stopped, began)).toMatchObject([{ status: 'speaking' }]);
  });

  it('disappears when it was no speech', () => {
    const state = run(began, stopped, { type: 'input_audio_buffer.cleared' });
    expect(state).toMatchObject({ entries: [], awaiting: false });
  });

  it('stays when another turn turns out to be none', () => {
    expect(turns(began, stopped, committed, heard('Yes.'), { type: 'input_audio_buffer.cleared' })).toHaveLength(1);
  });

  it('is marked when there will be no words', () => {
    expect(turns(began, stopped, committed, heard(''))).toMatchObject([{ status: 'untranscribed' }]);
    expect(turns(began, committed, { type: `${TRANSCRIPTION}.failed`, item_id: 'u1' })).toMatchObject([
      { status: 'untranscribed' },
    ]);
  });

  it('can be committed by hand', () => {
    expect(turns(committed, heard('Hello.'))).toMatchObject([{ status: 'final', text: 'Hello.' }]);
  });

  it('is nothing when the server speaks up after a silence', () => {
    const item: Item = {
      id: 'u1',
      type: 'message',
      role: 'user',
      content: [{ type: 'input_audio', transcript: '' }],
    };
    expect(turns(committed, { type: 'conversation.item.added', item })).toEqual([]);
  });

  it('can be written', () => {
    const item: Item = { id: 't1', type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Hi' }] };
    const wrote: Action = { type: 'wrote', itemId: 't1', text: 'Hi', at: 5 };
    expect(turns(wrote, { type: 'conversation.item.added', item })).toMatchObject([
      { kind: 'user', source: 'text', status: 'final', text: 'Hi' },
    ]);
  });
});

describe('an answer', () => {
  it('is revealed with its sound', () => {
    expect(turns(...spoken)).toMatchObject([{ heard: '', unheard: 'One two three four.', status: 'live' }]);
    expect(turns(...spoken, done(), played(900))).toMatchObject([
      { heard: 'One two three', unheard: ' four.', status: 'live', interrupted: false },
    ]);
    expect(turns(...spoken, done(), { type: 'drained', itemId: 'a1' })).toMatchObject([
      { heard: 'One two three four.', unheard: '', status: 'final', interrupted: false },
    ]);
  });

  it('does not take back words when the voice turns out to be slower', () => {
    const early = [created(), answer, word('One two three four.'), audio(1000), played(900)];
    expect(turns(...early)).toMatchObject([{ heard: 'One two three' }]);
    expect(turns(...early, audio(3000), audioDone, played(910))).toMatchObject([{ heard: 'One two three' }]);
  });

  it('that is cut keeps what was heard apart from the rest', () => {
    expect(turns(...spoken, done(), { type: 'cut', itemId: 'a1', ms: 1000 })).toMatchObject([
      { heard: 'One two', unheard: ' three four.', status: 'final', interrupted: true },
    ]);
  });

  it('that is cut and was never audible is unheard', () => {
    expect(turns(...spoken, { type: 'cut', itemId: 'a1', ms: 0 }, done('cancelled'))).toMatchObject([
      { heard: '', unheard: 'One two three four.', interrupted: true, status: 'final' },
    ]);
  });

  it('that was cut takes the words that the server knows were heard', () => {
    const retrieved: ServerEvent = {
      type: 'conversation.item.retrieved',
      item: {
        ...(message('a1') as Extract<Item, { type: 'message' }>),
        content: [{ type: 'output_audio', transcript: 'One two three' }],
      },
    };
    expect(turns(...spoken, { type: 'cut', itemId: 'a1', ms: 1000 }, retrieved)).toMatchObject([
      { heard: 'One two three', unheard: ' four.' },
    ]);
    expect(turns(...spoken, retrieved)).toMatchObject([{ heard: '', interrupted: false }]);
  });

  it('that the server cut, because it plays the sound, is cut here too', () => {
    const truncated: ServerEvent = { type: 'conversation.item.truncated', item_id: 'a1', audio_end_ms: 1000 };
    expect(turns(...spoken, truncated)).toMatchObject([{ heard: 'One two', interrupted: true }]);
  });

  it('is no longer revealed once it was cut', () => {
    expect(turns(...spoken, { type: 'cut', itemId: 'a1', ms: 500 }, played(2000))).toMatchObject([{ heard: 'One' }]);
  });

  it('that is cancelled before a word of it is shown by nothing', () => {
    expect(turns(created(), answer, done('cancelled'))).toEqual([]);
  });

  it('that fails says so', () => {
    expect(turns(...spoken, done('failed'))).toMatchObject([{ status: 'failed' }]);
  });

  it('in writing is all there at once', () => {
    const text: ServerEvent = { type: 'response.output_text.delta', response_id: 'r1', item_id: 'a1', delta: 'Hi.' };
    expect(turns(created(), answer, text)).toMatchObject([
      { heard: 'Hi.', unheard: '', spoken: false, status: 'live' },
    ]);
    expect(turns(created(), answer, text, done())).toMatchObject([{ status: 'final' }]);
  });

  it('is awaited from the end of the turn until it is done', () => {
    const states = [began, stopped, committed, created(), answer, done()];
    const awaiting = states.map((_, n) => run(...states.slice(0, n + 1)).awaiting);
    expect(awaiting).toEqual([false, true, true, true, true, false]);
  });

  it('carries its latency', () => {
    expect(turns(...spoken, { type: 'latency', responseId: 'r1', ms: 640 })).toMatchObject([{ latencyMs: 640 }]);
  });

  it('teaches the pace of the voice', () => {
    expect(run(...spoken, { type: 'drained', itemId: 'a1' }).pace).toBe(EMPTY.pace); // too short to learn from
    const long = [created(), answer, word('x'.repeat(40)), audio(4000), audioDone];
    expect(run(...long, { type: 'drained', itemId: 'a1' }).pace).toBe((EMPTY.pace + 100) / 2);
  });
});

describe('a function call', () => {
  const call: Item = { id: 'f1', type: 'function_call', call_id: 'c1', name: 'get_time', arguments: '' };
  const callBegan: ServerEvent = { type: 'response.output_item.added', response_id: 'r1', item: call };
  const piece: ServerEvent = {
    type: 'response.function_call_arguments.delta',
    response_id: 'r1',
    item_id: 'f1',
    delta: '{"zone":',
  };
  const finished = (status: string): ServerEvent => ({
    type: 'response.output_item.done',
    response_id: 'r1',
    item: { ...call, arguments: '{"zone":"UTC"}', status },
  });
  const output: ServerEvent = {
    type: 'conversation.item.added',
    item: { id: 'f1_out', type: 'function_call_output', call_id: 'c1', output: '"12:00"' },
  };

  it('is written, runs and is done', () => {
    expect(turns(created(), callBegan, piece)).toMatchObject([{ status: 'writing', arguments: '{"zone":' }]);
    expect(turns(created(), callBegan, piece, finished('completed'))).toMatchObject([
      { status: 'running', arguments: '{"zone":"UTC"}' },
    ]);
    expect(turns(created(), callBegan, finished('completed'), output)).toMatchObject([
      { kind: 'tool', name: 'get_time', status: 'done', output: '"12:00"' },
    ]);
  });

  it('that was cut off has failed', () => {
    expect(turns(created(), callBegan, finished('incomplete'))).toMatchObject([{ status: 'failed' }]);
  });
});

describe('a lost session', () => {
  it('ends what was open, and forgets a turn that nobody heard out', () => {
    const state = run(...spoken, played(900), began, { type: 'disconnected' });
    expect(turnsOf(state.entries)).toMatchObject([{ kind: 'assistant', heard: 'One two three', interrupted: true }]);
    expect(state).toMatchObject({ response: null, awaiting: false });
  });
});

describe('what looks as it did', () => {
  const before = turnsOf(run(began, stopped, committed, heard('Yes.'), ...spoken, played(900)).entries);

  it('is the same turn, so that nothing is drawn again', () => {
    const later = run(began, stopped, committed, heard('Yes.'), ...spoken, played(1700));
    const after = turnsOf(later.entries, before);
    expect(after[0]).toBe(before[0]);
    expect(after[1]).not.toBe(before[1]);
  });

  it('is the same list if all of it does', () => {
    const later = run(began, stopped, committed, heard('Yes.'), ...spoken, played(901));
    expect(turnsOf(later.entries, before)).toBe(before);
  });
});

it('events about things that are not known change nothing', () => {
  const strays: ServerEvent[] = [
    word('x'),
    audioDone,
    heard('x'),
    { type: 'conversation.item.truncated', item_id: 'none', audio_end_ms: 1 },
  ];
  for (const stray of strays) expect(run(stray)).toBe(EMPTY);
});
