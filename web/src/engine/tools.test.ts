import { expect, it } from 'vitest';
import type { Tool } from './api';
import { carryOut } from './tools';

const clock: Tool = {
  name: 'time',
  description: '',
  parameters: {},
  async run({ zone }) {
    if (zone === 'Mars') throw new Error('no such zone');
    return { zone, time: '12:00' };
  },
};

async function output(name: string, args: string): Promise<unknown> {
  const item = { id: 'f1', type: 'function_call', call_id: 'c1', name, arguments: args } as const;
  const event = await carryOut([clock], item);
  expect(event).toMatchObject({ item: { id: 'f1_out', type: 'function_call_output', call_id: 'c1' } });
  return event.type === 'conversation.item.create' && event.item.type === 'function_call_output'
    ? JSON.parse(event.item.output)
    : null;
}

it('tells the model what came of a call', async () => {
  expect(await output('time', '{"zone":"UTC"}')).toEqual({ zone: 'UTC', time: '12:00' });
});

it.each([
  ['time', '{"zone":"Mars"}', /no such zone/],
  ['time', '{', /JSON/],
  ['time', '7', /no object/],
  ['fly', '{}', /no function 'fly'/],
])('tells it what went wrong: %s(%s)', async (name, args, why) => {
  expect(await output(name, args)).toMatchObject({ error: expect.stringMatching(why) });
});
