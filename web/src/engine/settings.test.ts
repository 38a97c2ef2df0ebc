import { describe, expect, it } from 'vitest';
import type { Settings } from './api';
import type { SessionObject } from './protocol/events';
import { DEFAULTS, difference, initialSession } from './settings';

const held: SessionObject = {
  id: 's1',
  model: 'starter',
  instructions: 'Be kind.',
  output_modalities: ['audio'],
  audio: {
    input: {
      transcription: { language: null },
      turn_detection: { type: 'server_vad', threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 500 },
    },
    output: { voice: 'joe', speed: 1 },
  },
};
const standing = { busy: false, spoke: false, fresh: false, instructions: 'Be kind.' };

function patch(wanted: Partial<Settings>, now: Partial<typeof standing> = {}): unknown {
  return difference({ ...DEFAULTS, ...wanted }, held, { ...standing, ...now }).patch;
}

describe('what a session is told', () => {
  it('is nothing where it holds all that is wanted', () => {
    expect(patch({})).toBeNull();
    expect(patch({ voice: 'joe' })).toBeNull();
  });

  it('is only what differs', () => {
    expect(patch({ instructions: 'Be brief.' })).toEqual({ type: 'realtime', instructions: 'Be brief.' });
    expect(patch({ output: 'text' })).toEqual({ type: 'realtime', output_modalities: ['text'] });
    expect(patch({ language: 'en' })).toEqual({
      type: 'realtime',
      audio: { input: { transcription: { language: 'en' } } },
    });
    expect(patch({ speed: 1.2, voice: 'amy' })).toEqual({
      type: 'realtime',
      audio: { output: { speed: 1.2, voice: 'amy' } },
    });
  });

  it.each<[Settings['turnDetection'], unknown]>([
    [{ type: 'none' }, null],
    [
      { type: 'semantic_vad', eagerness: 'high' },
      { type: 'semantic_vad', eagerness: 'high' },
    ],
    [
      { type: 'server_vad', threshold: 0.7, silenceMs: 800, prefixPaddingMs: 300 },
      { type: 'server_vad', threshold: 0.7, silence_duration_ms: 800, prefix_padding_ms: 300 },
    ],
  ])('is how turns end: %j', (turnDetection, turn_detection) => {
    expect(patch({ turnDetection })).toEqual({ type: 'realtime', audio: { input: { turn_detection } } });
  });

  it('asks for transcripts where there are none', () => {
    const deaf = { ...held, audio: { ...held.audio, input: { ...held.audio.input, transcription: null } } };
    expect(difference(DEFAULTS, deaf, standing).patch).toMatchObject({
      audio: { input: { transcription: { language: null } } },
    });
  });

  it('gives the server its own instructions back', () => {
    const told = { ...held, instructions: 'Be brief.' };
    expect(difference(DEFAULTS, told, standing).patch).toEqual({ type: 'realtime', instructions: 'Be kind.' });
  });

  it('names the tools once, at the beginning', () => {
    const tools = [{ type: 'function', name: 'look', description: '', parameters: {} }] as const;
    expect(difference(DEFAULTS, held, { ...standing, fresh: true }, tools).patch).toEqual({ type: 'realtime', tools });
    expect(difference(DEFAULTS, held, standing, tools).patch).toBeNull();
  });
});

describe('what cannot be changed now', () => {
  it('is the pace during an answer', () => {
    expect(patch({ speed: 1.2 }, { busy: true })).toBeNull();
  });

  it('is a voice that was heard: it is pending', () => {
    const wanted = { ...DEFAULTS, voice: 'amy' };
    expect(difference(wanted, held, { ...standing, spoke: true })).toEqual({ patch: null, pending: ['voice'] });
    expect(difference(wanted, held, standing).pending).toEqual([]);
  });
});

it('a session that is described before it begins has it all', () => {
  expect(initialSession({ ...DEFAULTS, voice: 'amy', instructions: 'Be brief.' }, [])).toEqual({
    type: 'realtime',
    instructions: 'Be brief.',
    output_modalities: ['audio'],
    audio: {
      input: {
        transcription: { language: null },
        turn_detection: { type: 'server_vad', threshold: 0.5, prefix_padding_ms: 300, silence_duration_ms: 500 },
      },
      output: { voice: 'amy', speed: 1 },
    },
  });
});
