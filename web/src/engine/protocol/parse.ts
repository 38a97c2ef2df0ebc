/** From what the server sends to typed events. What is not understood is kept for the log and otherwise passed over. */

import { bytesToPcm16 } from '../audio/pcm';
import type { ErrorObject, ServerEvent } from './events';

export type Json = Readonly<Record<string, unknown>>;

export interface Incoming {
  /** The event as it came, without sound. */
  readonly raw: Json & { readonly type: string };
  /** null: one that this client does not use, or whose fields are not as they must be. */
  readonly event: ServerEvent | null;
}

export interface IncomingAudio {
  readonly raw: Json & { readonly type: string };
  readonly itemId: string;
  readonly responseId: string;
  readonly pcm: Int16Array<ArrayBuffer>;
}

type FieldType = 'string' | 'number' | 'object';

/** The fields that are relied upon without looking. */
const FIELDS: Readonly<Record<ServerEvent['type'], Readonly<Record<string, FieldType>>>> = {
  'session.created': { session: 'object' },
  'session.updated': { session: 'object' },
  error: { error: 'object' },
  'input_audio_buffer.speech_started': { item_id: 'string', audio_start_ms: 'number' },
  'input_audio_buffer.speech_stopped': { item_id: 'string', audio_end_ms: 'number' },
  'input_audio_buffer.committed': { item_id: 'string' },
  'input_audio_buffer.cleared': {},
  'conversation.item.added': { item: 'object' },
  'conversation.item.done': { item: 'object' },
  'conversation.item.retrieved': { item: 'object' },
  'conversation.item.deleted': { item_id: 'string' },
  'conversation.item.truncated': { item_id: 'string', audio_end_ms: 'number' },
  'conversation.item.input_audio_transcription.delta': { item_id: 'string', delta: 'string' },
  'conversation.item.input_audio_transcription.completed': { item_id: 'string', transcript: 'string' },
  'conversation.item.input_audio_transcription.failed': { item_id: 'string' },
  'response.created': { response: 'object' },
  'response.done': { response: 'object' },
  'response.output_item.added': { response_id: 'string', item: 'object' },
  'response.output_item.done': { response_id: 'string', item: 'object' },
  'response.output_audio_transcript.delta': { response_id: 'string', item_id: 'string', delta: 'string' },
  'response.output_text.delta': { response_id: 'string', item_id: 'string', delta: 'string' },
  'response.output_audio.done': { response_id: 'string', item_id: 'string' },
  'response.function_call_arguments.delta': { response_id: 'string', item_id: 'string', delta: 'string' },
  'output_audio_buffer.started': { response_id: 'string' },
  'output_audio_buffer.stopped': { response_id: 'string' },
  'output_audio_buffer.cleared': { response_id: 'string' },
};

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isKnown(type: string): type is ServerEvent['type'] {
  return Object.hasOwn(FIELDS, type);
}

function isServerEvent(raw: Incoming['raw']): raw is Incoming['raw'] & ServerEvent {
  if (!isKnown(raw.type)) return false;
  return Object.entries(FIELDS[raw.type]).every(([name, kind]) =>
    kind === 'object' ? isObject(raw[name]) : typeof raw[name] === kind,
  );
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** null: no JSON object with a type. */
export function parseText(text: string): Incoming | null {
  const raw = parseJson(text);
  const type = isObject(raw) ? raw['type'] : null;
  if (!isObject(raw) || typeof type !== 'string') return null;
  const typed = { ...raw, type };
  return { raw: typed, event: isServerEvent(typed) ? typed : null };
}

/** What the body of an HTTP answer says went wrong; null: it is not one of the server's. */
export function parseRefusal(body: string): ErrorObject | null {
  const raw = parseJson(body);
  const error = isObject(raw) ? raw['error'] : null;
  if (!isObject(error)) return null;
  const { code, message } = error;
  return typeof code === 'string' && typeof message === 'string' ? { code, message } : null;
}

/** A delta of sound as bytes (the server's extension `binary-audio`): the event as JSON, a newline, the samples. */
export function parseBinary(bytes: Uint8Array): IncomingAudio | null {
  const end = bytes.indexOf(0x0a);
  const header = end < 0 ? null : parseText(new TextDecoder().decode(bytes.subarray(0, end)));
  if (header === null) return null;
  return audioOf(header.raw, bytes.subarray(end + 1));
}

/** A delta of sound as base64, as servers without that extension send it. */
export function parseAudio(incoming: Incoming): IncomingAudio | null {
  const { delta, ...raw } = incoming.raw;
  if (raw.type !== 'response.output_audio.delta' || typeof delta !== 'string') return null;
  try {
    return audioOf(
      { ...raw, type: raw.type },
      Uint8Array.from(atob(delta), (letter) => letter.charCodeAt(0)),
    );
  } catch {
    return null;
  }
}

function audioOf(raw: Incoming['raw'], bytes: Uint8Array): IncomingAudio | null {
  const itemId = raw['item_id'];
  const responseId = raw['response_id'];
  if (typeof itemId !== 'string' || typeof responseId !== 'string') return null;
  return { raw: { ...raw, bytes: bytes.length }, itemId, responseId, pcm: bytesToPcm16(bytes) };
}
