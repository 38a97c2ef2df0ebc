/** How the orb looks in each mood, and how it gets from one to the next. Pure numbers: no canvas, no clock. */

/** What the orb tells. Each differs from the others in shape, not in colour alone. */
export type Mood = 'resting' | 'listening' | 'thinking' | 'speaking' | 'error';

/** Everything is a share from 0 to 1 unless it says otherwise. */
export interface Shape {
  /** Radius of the sphere, as a share of the room it has. */
  readonly size: number;
  /** How far its lines swing when nobody makes a sound. */
  readonly swell: number;
  /** How much of a sound's loudness the lines take on. */
  readonly gain: number;
  /** Where on the sphere they swing: 0 at its foot, 1 about its waist. */
  readonly centre: number;
  /** How far the lines are broken into dashes. */
  readonly dashes: number;
  /** How far the upper half is shifted against the lower. */
  readonly split: number;
  /** Visibility of the one ring around the sphere. */
  readonly ring: number;
  /** Visibility of the rings that leave it. */
  readonly echo: number;
  /** Visibility of the three beads that circle it. */
  readonly beads: number;
  /** Speed of the waves, in turns a second. */
  readonly pace: number;
}

const RESTING: Shape = {
  size: 0.84,
  swell: 0.05,
  gain: 0,
  centre: 1,
  dashes: 0,
  split: 0,
  ring: 0,
  echo: 0,
  beads: 0,
  pace: 0.08,
};

export const SHAPES: Readonly<Record<Mood, Shape>> = {
  resting: RESTING,
  listening: { ...RESTING, size: 0.86, swell: 0.03, gain: 0.8, centre: 0, ring: 1, pace: 0.16 },
  thinking: { ...RESTING, size: 0.72, swell: 0.015, dashes: 1, beads: 1, pace: 0.3 },
  speaking: { ...RESTING, size: 0.9, swell: 0.06, gain: 1, echo: 1, pace: 0.3 },
  error: { ...RESTING, size: 0.84, swell: 0, split: 1, pace: 0 },
};

const SETTLING_MS = 160;

/** `from`, `elapsed` milliseconds further on its way to `to`: an exponential approach, whatever the frame rate. */
export function approach(from: Shape, to: Shape, elapsed: number): Shape {
  const share = 1 - Math.exp(-Math.max(0, elapsed) / SETTLING_MS);
  const mix = (key: keyof Shape) => from[key] + (to[key] - from[key]) * share;
  return {
    size: mix('size'),
    swell: mix('swell'),
    gain: mix('gain'),
    centre: mix('centre'),
    dashes: mix('dashes'),
    split: mix('split'),
    ring: mix('ring'),
    echo: mix('echo'),
    beads: mix('beads'),
    pace: mix('pace'),
  };
}

const ATTACK_MS = 35;
const RELEASE_MS = 180;
const FLOOR_DB = -52;

/** A level as the eye takes it, 0 to 1, from the root mean square of the sound: silence to full scale in decibels. */
export function loudness(rms: number): number {
  if (rms <= 0) return 0;
  const db = 20 * Math.log10(rms);
  return Math.min(1, Math.max(0, (db - FLOOR_DB) / (-12 - FLOOR_DB)));
}

/** Follows a level: up at once, down slowly, so that syllables show and do not flicker. */
export function follow(shown: number, level: number, elapsed: number): number {
  const settling = level > shown ? ATTACK_MS : RELEASE_MS;
  return shown + (level - shown) * (1 - Math.exp(-Math.max(0, elapsed) / settling));
}
