import { expect, it } from 'vitest';
import { transcriptText } from './text';

it('marks what was not heard', () => {
  const text = transcriptText([
    { kind: 'user', id: 'u1', source: 'speech', text: 'What is it?', status: 'final', at: 0 },
    {
      kind: 'assistant',
      id: 'a1',
      responseId: 'r1',
      heard: 'A cat,',
      unheard: ' I think.',
      status: 'final',
      interrupted: true,
      spoken: true,
      latencyMs: null,
      at: 0,
    },
    { kind: 'user', id: 'u2', source: 'speech', text: '', status: 'untranscribed', at: 0 },
    { kind: 'tool', id: 'f1', name: 'look', arguments: '{}', output: '"cat"', status: 'done', at: 0 },
  ]);
  expect(text).toBe(
    'You: What is it?\nAssistant: A cat, [interrupted; not heard: I think.]\nYou: (not understood)\nTool look({}): "cat"\n',
  );
});
