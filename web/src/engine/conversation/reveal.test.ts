import { describe, expect, it } from 'vitest';
import { learnedPace, spokenLength } from './reveal';

const text = 'The capital of France is Paris.';

function shown(playedMs: number, audioMs: number, complete: boolean, begun = false): string {
  return text.slice(0, spokenLength({ text, audioMs, complete }, playedMs, 100, begun));
}

describe('the words that were spoken', () => {
  it('are none before the sound and all at its end', () => {
    expect(shown(0, 2000, true)).toBe('');
    expect(shown(2000, 2000, true)).toBe(text);
  });

  it('are those that have ended, at an even pace over the sound', () => {
    expect(shown(1000, 2000, true)).toBe('The capital of');
    expect(shown(1400, 2000, true)).toBe('The capital of France');
  });

  it('include the one that is being spoken, for captions', () => {
    expect(shown(1000, 2000, true, true)).toBe('The capital of France');
  });

  it('follow the pace of the voice while sound is still to come', () => {
    expect(shown(1000, 1200, false)).toBe('The');
    expect(shown(1200, 1200, false)).toBe('The capital');
  });

  it('follow the sound that has come if that is slower than the pace', () => {
    expect(shown(3100, 6200, false)).toBe('The capital of');
  });

  it('follow the pace where the length of the sound is never known', () => {
    expect(shown(1200, 0, true)).toBe('The capital');
  });

  it('never become fewer as playing goes on', () => {
    const lengths = Array.from({ length: 200 }, (_, n) => shown(n * 10, 2000, true, true).length);
    expect(lengths).toEqual(lengths.toSorted((a, b) => a - b));
  });
});

describe('the pace of a voice', () => {
  it('moves halfway to what an answer shows', () => {
    expect(learnedPace(60, 'x'.repeat(100), 8000)).toBe(70);
  });

  it('is not learned from a word or two, or from no sound', () => {
    expect(learnedPace(60, 'Yes.', 900)).toBe(60);
    expect(learnedPace(60, text, 0)).toBe(60);
  });
});
