/** The orb's lines as points: a sphere engraved with chords, in units of its own radius. */

import type { Shape } from './moods';

export const LINES = 30;
const STEPS = 44;

export interface Line {
  /** x0, y0, x1, y1, …; y grows downwards. */
  readonly points: Float32Array;
  /** -1 at the top, 1 at the foot. */
  readonly height: number;
}

/** The chords of the sphere at rest. The points are written anew by {@link bend}. */
export function chords(): readonly Line[] {
  return Array.from({ length: LINES }, (_, index) => {
    // Even in angle, not in height: closer together towards the poles, as on a globe.
    const angle = ((index + 0.5) / LINES - 0.5) * Math.PI * 0.94;
    return { points: new Float32Array(2 * (STEPS + 1)), height: Math.sin(angle) };
  });
}

/**
 * Bends one line. `phase`: of the waves, in radians. `level`: loudness, 0 to 1. A line keeps its ends, so that the
 * sphere keeps its outline while its surface moves.
 */
export function bend(line: Line, shape: Shape, phase: number, level: number): void {
  const { height, points } = line;
  const reach = Math.sqrt(1 - height * height);
  const amplitude = (shape.swell + 0.34 * shape.gain * level) * where(height, shape.centre);
  const shift = shape.split * (height < 0 ? 0.16 : -0.16);
  const part = shape.split * (height < 0 ? -0.07 : 0.07);
  for (let step = 0; step <= STEPS; step++) {
    const along = (2 * step) / STEPS - 1;
    const x = along * reach;
    const hold = (1 - along * along) ** 1.4;
    const wave =
      0.62 * Math.sin(3.4 * x + phase + 1.5 * height) +
      0.38 * Math.sin(7.3 * x - 1.6 * phase + 2.2 * height) * Math.min(1, 0.25 + level);
    points[2 * step] = x + shift;
    points[2 * step + 1] = height + part + amplitude * hold * wave;
  }
}

/** How strongly a line at this height swings. */
function where(height: number, centre: number): number {
  const waist = Math.exp(-((height / 0.62) ** 2));
  const foot = Math.exp(-(((height - 0.75) / 0.6) ** 2));
  return centre * waist + (1 - centre) * foot;
}
