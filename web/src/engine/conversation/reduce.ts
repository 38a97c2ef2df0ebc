/** The conversation as a pure state machine: what the server says and what is played in, entries out. */

import type { Item, ResponseObject, ServerEvent } from '../protocol/events';
import { textOf } from '../protocol/events';
import type { AssistantEntry, Entry, ToolEntry, UserEntry } from './entries';
import { learnedPace, spokenLength, USUAL_PACE } from './reveal';

export interface Conversation {
  /** In the conversation's order. */
  readonly entries: readonly Entry[];
  /** The response under way. */
  readonly response: string | null;
  /** Somebody has finished a turn, and no answer to it is done. */
  readonly awaiting: boolean;
  /** Milliseconds of speech a character, as learned so far. */
  readonly pace: number;
}

export const EMPTY: Conversation = { entries: [], response: null, awaiting: false, pace: USUAL_PACE };

export type Action =
  | { readonly type: 'server'; readonly event: ServerEvent; readonly at: number }
  /** More of an item's sound has come. */
  | {
      readonly type: 'audio';
      readonly itemId: string;
      readonly responseId: string;
      readonly ms: number;
      readonly at: number;
    }
  | { readonly type: 'played'; readonly itemId: string; readonly ms: number }
  | { readonly type: 'drained'; readonly itemId: string }
  /** The item's sound was stopped after so much of it. */
  | { readonly type: 'cut'; readonly itemId: string; readonly ms: number }
  /** Something was said in writing. */
  | { readonly type: 'wrote'; readonly itemId: string; readonly text: string; readonly at: number }
  /** An answer was asked for. */
  | { readonly type: 'asked' }
  | { readonly type: 'latency'; readonly responseId: string; readonly ms: number }
  /** The session is gone, and with it what it had not finished. */
  | { readonly type: 'disconnected' };

export function reduce(state: Conversation, action: Action): Conversation {
  switch (action.type) {
    case 'server':
      return reduceServer(state, action.event, action.at);
    case 'audio':
      return heardOf(state, action);
    case 'played':
      return changeAssistant(state, action.itemId, (entry) => played(entry, action.ms, state.pace));
    case 'drained':
      return drained(state, action.itemId);
    case 'cut':
      return changeAssistant(state, action.itemId, (entry) => cut(entry, action.ms, state.pace));
    case 'wrote':
      return { ...append(state, typedEntry(action.itemId, action.text, action.at)), awaiting: true };
    case 'asked':
      return { ...state, awaiting: true };
    case 'latency':
      return changeAnswer(state, action.responseId, (entry) => ({ ...entry, latencyMs: action.ms }));
    case 'disconnected':
      return disconnected(state);
  }
}

function reduceServer(state: Conversation, event: ServerEvent, at: number): Conversation {
  switch (event.type) {
    case 'input_audio_buffer.speech_started':
      return speechStarted(state, event.item_id, at);
    case 'input_audio_buffer.speech_stopped':
      return { ...changeUser(state, event.item_id, () => ({ status: 'transcribing' })), awaiting: true };
    case 'input_audio_buffer.cleared':
      return { ...withoutTurn(state), awaiting: state.response !== null };
    case 'input_audio_buffer.committed':
      return committed(state, event.item_id, at);
    case 'conversation.item.input_audio_transcription.delta':
      return changeUser(state, event.item_id, ({ text }) => ({ text: text + event.delta }));
    case 'conversation.item.input_audio_transcription.completed':
      return changeUser(state, event.item_id, () => ({
        text: event.transcript,
        status: event.transcript === '' ? 'untranscribed' : 'final',
      }));
    case 'conversation.item.input_audio_transcription.failed':
      return changeUser(state, event.item_id, () => ({ status: 'untranscribed' }));
    default:
      return reduceAnswer(state, event, at);
  }
}

function reduceAnswer(state: Conversation, event: ServerEvent, at: number): Conversation {
  switch (event.type) {
    case 'response.created':
      return { ...state, response: event.response.id, awaiting: true };
    case 'response.output_item.added':
      return itemBegan(state, event.item, event.response_id, at);
    case 'response.output_item.done':
      return callWritten(state, event.item);
    case 'response.output_audio_transcript.delta':
      return changeAssistant(state, event.item_id, (entry) => ({ ...entry, text: entry.text + event.delta }));
    case 'response.output_text.delta':
      return changeAssistant(state, event.item_id, (entry) => ({
        ...entry,
        spoken: false,
        text: entry.text + event.delta,
      }));
    case 'response.output_audio.done':
      return changeAssistant(state, event.item_id, (entry) => ({ ...entry, audioComplete: true }));
    case 'response.function_call_arguments.delta':
      return changeTool(state, event.item_id, (entry) => ({ ...entry, arguments: entry.arguments + event.delta }));
    case 'response.done':
      return responseDone(state, event.response);
    default:
      return reduceItem(state, event, at);
  }
}

function reduceItem(state: Conversation, event: ServerEvent, at: number): Conversation {
  switch (event.type) {
    case 'conversation.item.added':
      return itemAdded(state, event.item, at);
    case 'conversation.item.retrieved':
      return heardExactly(state, event.item);
    case 'conversation.item.truncated':
      return changeAssistant(state, event.item_id, (entry) =>
        entry.interrupted ? entry : cut(entry, event.audio_end_ms, state.pace),
      );
    case 'conversation.item.deleted':
      return { ...state, entries: state.entries.filter((entry) => entry.id !== event.item_id) };
    default:
      return state;
  }
}

// What people say

function speechStarted(state: Conversation, id: string, at: number): Conversation {
  const known = find(state, id) !== undefined;
  const begun = known
    ? changeUser(state, id, () => ({ status: 'speaking' }))
    : append(state, spokenEntry(id, 'speaking', at));
  return { ...begun, awaiting: false };
}

function committed(state: Conversation, id: string, at: number): Conversation {
  const known = find(state, id) !== undefined ? state : append(state, spokenEntry(id, 'transcribing', at));
  const changed = changeUser(known, id, ({ status }) => ({
    committed: true,
    status: status === 'speaking' ? 'transcribing' : status,
  }));
  return { ...changed, awaiting: true };
}

/** The turn that was being spoken has turned out to be none. */
function withoutTurn(state: Conversation): Conversation {
  const entries = state.entries.filter((entry) => entry.kind !== 'user' || entry.committed);
  return entries.length === state.entries.length ? state : { ...state, entries };
}

function spokenEntry(id: string, status: UserEntry['status'], at: number): UserEntry {
  return { kind: 'user', id, source: 'speech', text: '', status, committed: false, at };
}

function typedEntry(id: string, text: string, at: number): UserEntry {
  return { kind: 'user', id, source: 'text', text, status: 'final', committed: true, at };
}

// Answers

function itemBegan(state: Conversation, item: Item, responseId: string, at: number): Conversation {
  if (find(state, item.id) !== undefined) return state;
  if (item.type === 'message') return append(state, assistantEntry(item.id, responseId, at));
  return item.type === 'function_call' ? append(state, toolEntry(item, at)) : state;
}

/** Sound can come before anything else is known of its item. */
function heardOf(state: Conversation, action: Extract<Action, { type: 'audio' }>): Conversation {
  const known =
    find(state, action.itemId) !== undefined
      ? state
      : append(state, assistantEntry(action.itemId, action.responseId, action.at));
  return changeAssistant(known, action.itemId, (entry) => ({ ...entry, audioMs: entry.audioMs + action.ms }));
}

function played(entry: AssistantEntry, ms: number, pace: number): AssistantEntry {
  if (entry.interrupted || entry.silent || ms <= entry.playedMs) return entry;
  const speech = { text: entry.text, audioMs: entry.audioMs, complete: entry.audioComplete };
  const heardLength = Math.max(entry.heardLength, spokenLength(speech, ms, pace, true));
  return { ...entry, playedMs: ms, heardLength };
}

function drained(state: Conversation, id: string): Conversation {
  const entry = find(state, id);
  if (entry?.kind !== 'assistant' || entry.silent) return state;
  const lengthMs = entry.audioMs > 0 ? entry.audioMs : entry.playedMs;
  const pace = learnedPace(state.pace, entry.text, lengthMs);
  const silenced = changeAssistant(state, id, (one) => ({ ...one, silent: true, heardLength: one.text.length }));
  return { ...silenced, pace };
}

function cut(entry: AssistantEntry, ms: number, pace: number): AssistantEntry {
  const speech = { text: entry.text, audioMs: entry.audioMs, complete: entry.audioComplete };
  const heardLength = spokenLength(speech, ms, pace, false);
  return { ...entry, playedMs: ms, heardLength, silent: true, interrupted: true };
}

function responseDone(state: Conversation, response: ResponseObject): Conversation {
  const done = changeAnswer(state, response.id, (entry) => ({
    ...entry,
    written: true,
    // The sound of a failed answer that has come is still played.
    silent: entry.silent || response.status === 'cancelled',
    interrupted: entry.interrupted || (response.status === 'cancelled' && entry.spoken && !entry.silent),
    failed: response.status === 'failed',
  }));
  const over = state.response === null || state.response === response.id;
  return over ? { ...done, response: null, awaiting: false } : done;
}

function callWritten(state: Conversation, item: Item): Conversation {
  if (item.type !== 'function_call') return state;
  return changeTool(state, item.id, (entry) => ({
    ...entry,
    arguments: item.arguments,
    status: item.status === 'completed' ? 'running' : 'failed',
  }));
}

/** The server knows by the words' own marks what was heard; until it says so, the even pace is the best guess. */
function heardExactly(state: Conversation, item: Item): Conversation {
  if (item.type !== 'message') return state;
  const heard = textOf(item).trimEnd();
  return changeAssistant(state, item.id, (entry) =>
    entry.interrupted && entry.text.startsWith(heard) ? { ...entry, heardLength: heard.length } : entry,
  );
}

function assistantEntry(id: string, responseId: string, at: number): AssistantEntry {
  return {
    kind: 'assistant',
    id,
    responseId,
    spoken: true,
    text: '',
    audioMs: 0,
    audioComplete: false,
    playedMs: 0,
    heardLength: 0,
    written: false,
    silent: false,
    interrupted: false,
    failed: false,
    latencyMs: null,
    at,
  };
}

function toolEntry(item: Extract<Item, { type: 'function_call' }>, at: number): ToolEntry {
  const { id, name } = item;
  return { kind: 'tool', id, callId: item.call_id, name, arguments: '', output: null, status: 'writing', at };
}

// Items

function itemAdded(state: Conversation, item: Item, at: number): Conversation {
  if (item.type === 'function_call_output') {
    const call = state.entries.find((entry) => entry.kind === 'tool' && entry.callId === item.call_id);
    return call === undefined
      ? state
      : changeTool(state, call.id, (entry) => ({ ...entry, output: item.output, status: 'done' }));
  }
  if (item.type !== 'message' || item.role !== 'user') return state;
  const [part] = item.content;
  if (part?.type === 'input_audio') {
    // The sound of a timeout holds no words and never will.
    return part.transcript === '' ? remove(state, item.id) : state;
  }
  return find(state, item.id) !== undefined ? state : append(state, typedEntry(item.id, textOf(item), at));
}

function disconnected(state: Conversation): Conversation {
  const entries = withoutTurn(state).entries.map((entry): Entry => {
    if (entry.kind === 'assistant' && !(entry.written && (entry.silent || !entry.spoken))) {
      return { ...entry, written: true, silent: true, interrupted: true };
    }
    if (entry.kind === 'tool' && entry.output === null) return { ...entry, status: 'failed' };
    if (entry.kind === 'user' && entry.status === 'transcribing') return { ...entry, status: 'untranscribed' };
    return entry;
  });
  return { ...state, entries, response: null, awaiting: false };
}

// Entries

function find(state: Conversation, id: string): Entry | undefined {
  return state.entries.findLast((entry) => entry.id === id);
}

function append(state: Conversation, entry: Entry): Conversation {
  return { ...state, entries: [...state.entries, entry] };
}

function remove(state: Conversation, id: string): Conversation {
  return { ...state, entries: state.entries.filter((entry) => entry.id !== id) };
}

function change(state: Conversation, id: string, changed: (entry: Entry) => Entry): Conversation {
  const at = state.entries.findLastIndex((entry) => entry.id === id);
  const before = state.entries[at];
  if (before === undefined) return state;
  const after = changed(before);
  return after === before ? state : { ...state, entries: state.entries.with(at, after) };
}

function changeUser(state: Conversation, id: string, patch: (entry: UserEntry) => Partial<UserEntry>): Conversation {
  return change(state, id, (entry) => (entry.kind === 'user' ? { ...entry, ...patch(entry) } : entry));
}

function changeAssistant(
  state: Conversation,
  id: string,
  changed: (entry: AssistantEntry) => AssistantEntry,
): Conversation {
  return change(state, id, (entry) => (entry.kind === 'assistant' ? changed(entry) : entry));
}

function changeTool(state: Conversation, id: string, changed: (entry: ToolEntry) => ToolEntry): Conversation {
  return change(state, id, (entry) => (entry.kind === 'tool' ? changed(entry) : entry));
}

/** Every message of a response. */
function changeAnswer(
  state: Conversation,
  responseId: string,
  changed: (entry: AssistantEntry) => AssistantEntry,
): Conversation {
  const ids = state.entries.flatMap((entry) =>
    entry.kind === 'assistant' && entry.responseId === responseId ? [entry.id] : [],
  );
  return ids.reduce((before, id) => changeAssistant(before, id, changed), state);
}
