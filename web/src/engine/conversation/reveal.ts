/** How much of an answer's text has been spoken, from how much of its sound was played. */

/** Pace of speech before anything is known of the voice, milliseconds a character. */
export const USUAL_PACE = 65;

export interface Speech {
  readonly text: string;
  /** Length of the sound that has come; 0 where it is not known, as over WebRTC. */
  readonly audioMs: number;
  /** Whether that is all of it. */
  readonly complete: boolean;
}

/**
 * Characters of the text that are spoken in the first `playedMs` of its sound, at an even pace over all of it. Text comes
 * before its sound: as long as more is to come, its length is reckoned from `pace` (milliseconds a character).
 *
 * `begun` counts the word that is being spoken, which suits captions; otherwise only whole words count, as on the server.
 */
export function spokenLength(speech: Speech, playedMs: number, pace: number, begun: boolean): number {
  const { text, audioMs, complete } = speech;
  const known = complete && audioMs > 0;
  const durationMs = known ? audioMs : Math.max(audioMs, text.trimEnd().length * pace);
  if (playedMs <= 0 || durationMs <= 0) return 0;
  if (known && playedMs >= durationMs) return text.length;
  const limit = text.trimEnd().length * Math.min(1, playedMs / durationMs);
  let end = 0;
  for (const word of text.matchAll(/\S+/g)) {
    const wordEnd = word.index + word[0].length;
    if ((begun ? word.index : wordEnd) > limit) break;
    end = wordEnd;
  }
  return end;
}

/** The pace of a voice, learned from an answer whose sound is all there; `before`: what was learned until then. */
export function learnedPace(before: number, text: string, audioMs: number): number {
  const length = text.trim().length;
  // A word or two tells more of pauses than of the pace.
  return length < 20 || audioMs <= 0 ? before : (before + audioMs / length) / 2;
}
