import { expect, it } from 'vitest';
import type { AssistantEntry, Entry, ToolEntry, UserEntry } from './entries';
import { isUnanswered, replay } from './replay';

const user: UserEntry = {
  kind: 'user',
  id: 'u1',
  source: 'speech',
  text: 'What is it?',
  status: 'final',
  committed: true,
  at: 0,
};
const assistant: AssistantEntry = {
  kind: 'assistant',
  id: 'a1',
  responseId: 'r1',
  spoken: true,
  text: 'A cat, I think.',
  audioMs: 900,
  audioComplete: true,
  playedMs: 900,
  heardLength: 6,
  written: true,
  silent: true,
  interrupted: false,
  failed: false,
  latencyMs: null,
  at: 0,
};
const tool: ToolEntry = {
  kind: 'tool',
  id: 'f1',
  callId: 'c1',
  name: 'look',
  arguments: '{}',
  output: '"cat"',
  status: 'done',
  at: 0,
};

it('puts every item back after the one before it', () => {
  expect(replay([user, tool, assistant])).toEqual([
    {
      type: 'conversation.item.create',
      previous_item_id: 'root',
      item: {
        id: 'u1',
        type: 'message',
        role: 'user',
        content: [{ type: 'input_audio', transcript: 'What is it?' }],
      },
    },
    {
      type: 'conversation.item.create',
      previous_item_id: 'u1',
      item: { id: 'f1', type: 'function_call', call_id: 'c1', name: 'look', arguments: '{}' },
    },
    {
      type: 'conversation.item.create',
      previous_item_id: 'f1',
      item: { id: 'f1_out', type: 'function_call_output', call_id: 'c1', output: '"cat"' },
    },
    {
      type: 'conversation.item.create',
      previous_item_id: 'f1_out',
      item: {
        id: 'a1',
        type: 'message',
        role: 'assistant',
        content: [{ type: 'output_audio', transcript: 'A cat, I think.' }],
      },
    },
  ]);
});

it('tells of an interrupted answer only what was heard', () => {
  const [event] = replay([{ ...assistant, interrupted: true }]);
  expect(event).toMatchObject({ item: { content: [{ transcript: 'A cat,' }] } });
});

it.each<[string, Entry]>([
  ['a turn without words', { ...user, text: '', status: 'untranscribed' }],
  ['a turn that is being spoken', { ...user, status: 'speaking' }],
  ['an answer of which nothing was heard', { ...assistant, interrupted: true, heardLength: 0 }],
  ['a call without a result', { ...tool, output: null, status: 'failed' }],
])('leaves out %s', (_, entry) => {
  expect(replay([entry])).toEqual([]);
});

it('writes what was written as text', () => {
  const written = replay([
    { ...user, source: 'text' },
    { ...assistant, spoken: false },
  ]);
  expect(written).toMatchObject([
    { item: { content: [{ type: 'input_text', text: 'What is it?' }] } },
    { item: { content: [{ type: 'output_text', text: 'A cat, I think.' }] } },
  ]);
});

it('knows whether somebody waits for an answer', () => {
  expect(isUnanswered([])).toBe(false);
  expect(isUnanswered([user])).toBe(true);
  expect(isUnanswered([user, assistant])).toBe(false);
  expect(isUnanswered([user, { ...assistant, text: '' }])).toBe(true);
});
