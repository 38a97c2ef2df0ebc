/** Functions that the model may call, carried out in the page. */

import type { Tool } from './api';
import type { ClientEvent, FunctionCallItem, ToolObject } from './protocol/events';

export function toolObjects(tools: readonly Tool[]): readonly ToolObject[] {
  return tools.map(({ name, description, parameters }) => ({ type: 'function', name, description, parameters }));
}

/** The result of one call, as the item that tells the model; a failure is a result too. */
export async function carryOut(tools: readonly Tool[], call: FunctionCallItem): Promise<ClientEvent> {
  const output = await outcome(tools, call).catch((error: unknown) => ({ error: String(error) }));
  return {
    type: 'conversation.item.create',
    item: {
      id: `${call.id}_out`,
      type: 'function_call_output',
      call_id: call.call_id,
      output: JSON.stringify(output ?? null),
    },
  };
}

async function outcome(tools: readonly Tool[], call: FunctionCallItem): Promise<unknown> {
  const tool = tools.find(({ name }) => name === call.name);
  if (tool === undefined) return { error: `there is no function '${call.name}'` };
  const args: unknown = JSON.parse(call.arguments);
  if (typeof args !== 'object' || args === null) return { error: 'the arguments are no object' };
  return tool.run({ ...args });
}
