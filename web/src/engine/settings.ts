/** From what the person wants to what the session has to be told. */

import type { PendingSetting, Settings, TurnDetection } from './api';
import type { SessionObject, SessionPatch, ToolObject, TurnDetectionObject } from './protocol/events';

// The same objects each time, because what has not changed is told by its identity.
const VOICE: readonly PendingSetting[] = ['voice'];
const NONE: readonly PendingSetting[] = [];

export const DEFAULTS: Settings = {
  voice: null,
  instructions: '',
  turnDetection: { type: 'server_vad', threshold: 0.5, silenceMs: 500, prefixPaddingMs: 300 },
  speed: 1,
  language: null,
  output: 'audio',
};

/** What a change has to respect. */
export interface Standing {
  /** An answer is under way: the pace cannot change now. */
  readonly busy: boolean;
  /** The voice was heard in this session and is fixed. */
  readonly spoke: boolean;
  /** The session has just begun and knows no tools. */
  readonly fresh: boolean;
  /** The server's own instructions, which hold where the person gives none. */
  readonly instructions: string;
}

export interface Difference {
  /** null: nothing has to be said, or can be at the moment. */
  readonly patch: SessionPatch | null;
  readonly pending: readonly PendingSetting[];
}

function detectionOf(wanted: TurnDetection): TurnDetectionObject | null {
  switch (wanted.type) {
    case 'server_vad':
      return {
        type: 'server_vad',
        threshold: wanted.threshold,
        prefix_padding_ms: wanted.prefixPaddingMs,
        silence_duration_ms: wanted.silenceMs,
      };
    case 'semantic_vad':
      return { type: 'semantic_vad', eagerness: wanted.eagerness };
    case 'none':
      return null;
  }
}

export function voiceOf(session: SessionObject): string {
  const { voice } = session.audio.output;
  return typeof voice === 'string' ? voice : voice.id;
}

function holds(wanted: TurnDetectionObject | null, held: TurnDetectionObject | null): boolean {
  if (wanted === null || held === null) return wanted === held;
  const fields: Readonly<Record<string, unknown>> = { ...held };
  return Object.entries(wanted).every(([name, value]) => fields[name] === value);
}

function inputPatch(wanted: Settings, held: SessionObject): NonNullable<SessionPatch['audio']>['input'] {
  const { transcription, turn_detection } = held.audio.input;
  const detection = detectionOf(wanted.turnDetection);
  const transcribed = transcription != null && (transcription.language ?? null) === wanted.language;
  return {
    ...(transcribed ? {} : { transcription: { language: wanted.language } }),
    ...(holds(detection, turn_detection) ? {} : { turn_detection: detection }),
  };
}

function outputPatch(
  wanted: Settings,
  held: SessionObject,
  standing: Standing,
): NonNullable<SessionPatch['audio']>['output'] {
  const revoice = wanted.voice !== null && wanted.voice !== voiceOf(held);
  return {
    ...(revoice && !standing.spoke ? { voice: wanted.voice } : {}),
    ...(wanted.speed !== held.audio.output.speed && !standing.busy ? { speed: wanted.speed } : {}),
  };
}

/** What to say to a session that holds `held`. */
export function difference(
  wanted: Settings,
  held: SessionObject,
  standing: Standing,
  tools: readonly ToolObject[] = [],
): Difference {
  const instructions = wanted.instructions || standing.instructions;
  const input = inputPatch(wanted, held) ?? {};
  const output = outputPatch(wanted, held, standing) ?? {};
  const audio = {
    ...(Object.keys(input).length > 0 ? { input } : {}),
    ...(Object.keys(output).length > 0 ? { output } : {}),
  };
  const changes = {
    ...(instructions === held.instructions ? {} : { instructions }),
    ...(held.output_modalities[0] === wanted.output ? {} : { output_modalities: [wanted.output] as const }),
    ...(standing.fresh && tools.length > 0 ? { tools } : {}),
    ...(Object.keys(audio).length > 0 ? { audio } : {}),
  };
  const revoice = wanted.voice !== null && wanted.voice !== voiceOf(held);
  return {
    patch: Object.keys(changes).length > 0 ? { type: 'realtime', ...changes } : null,
    pending: revoice && standing.spoke ? VOICE : NONE,
  };
}

/** A whole session for those who take one before it begins (`POST /v1/realtime/calls`). */
export function initialSession(wanted: Settings, tools: readonly ToolObject[]): SessionPatch {
  return {
    type: 'realtime',
    ...(wanted.instructions === '' ? {} : { instructions: wanted.instructions }),
    output_modalities: [wanted.output],
    ...(tools.length > 0 ? { tools } : {}),
    audio: {
      input: { transcription: { language: wanted.language }, turn_detection: detectionOf(wanted.turnDetection) },
      output: { ...(wanted.voice === null ? {} : { voice: wanted.voice }), speed: wanted.speed },
    },
  };
}
