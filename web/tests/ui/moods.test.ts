import { describe, expect, it } from 'vitest';
import { bend, chords } from '../../src/ui/orb/geometry';
import { approach, follow, loudness, type Mood, SHAPES, type Shape } from '../../src/ui/orb/moods';

const MOODS = Object.keys(SHAPES) as Mood[];

describe('a mood', () => {
  it.each(MOODS)('%s has a shape that no other has, whatever the colours', (mood) => {
    // What an eye can tell apart without motion: the outline's size, dashes, a ring, echoes, beads, a split.
    const visible = ({ size, dashes, split, ring, echo, beads }: Shape) => [size, dashes, split, ring, echo, beads];
    const others = MOODS.filter((other) => other !== mood).map((other) => visible(SHAPES[other]));
    for (const other of others) {
      const differences = visible(SHAPES[mood]).map((value, index) => Math.abs(value - (other[index] ?? 0)));
      expect(Math.max(...differences)).toBeGreaterThanOrEqual(0.9);
    }
  });

  it('is reached at the same time whatever the frame rate', () => {
    let steps = SHAPES.resting;
    for (let frame = 0; frame < 20; frame++) steps = approach(steps, SHAPES.speaking, 10);
    const once = approach(SHAPES.resting, SHAPES.speaking, 200);
    for (const key of Object.keys(once) as (keyof Shape)[]) expect(steps[key]).toBeCloseTo(once[key], 9);
  });

  it('stays where it is when no time passes, or the clock steps back', () => {
    expect(approach(SHAPES.resting, SHAPES.error, 0)).toEqual(SHAPES.resting);
    expect(approach(SHAPES.resting, SHAPES.error, -5)).toEqual(SHAPES.resting);
  });
});

describe('loudness', () => {
  it('goes from silence to full speech in decibels', () => {
    expect(loudness(0)).toBe(0);
    expect(loudness(10 ** (-52 / 20))).toBeCloseTo(0);
    expect(loudness(10 ** (-32 / 20))).toBeCloseTo(0.5);
    expect(loudness(1)).toBe(1);
  });

  it('rises fast and falls slowly', () => {
    const up = follow(0, 1, 35);
    const down = 1 - follow(1, 0, 35);
    expect(up).toBeGreaterThan(3 * down);
  });
});

describe('a line of the orb', () => {
  it('keeps its ends where the sphere ends, however loud it is', () => {
    for (const line of chords()) {
      bend(line, SHAPES.speaking, 1.7, 1);
      const reach = Math.sqrt(1 - line.height ** 2);
      expect(line.points[0]).toBeCloseTo(-reach, 5);
      expect(line.points[1]).toBeCloseTo(line.height, 5);
      expect(line.points.at(-2)).toBeCloseTo(reach, 5);
      expect(line.points.at(-1)).toBeCloseTo(line.height, 5);
    }
  });

  it('swings more the louder it is', () => {
    const swing = (level: number) => {
      const lines = chords();
      for (const line of lines) bend(line, SHAPES.speaking, 0.6, level);
      return Math.max(
        ...lines.flatMap(({ points, height }) => [...points].map((y, at) => (at % 2 ? Math.abs(y - height) : 0))),
      );
    };
    expect(swing(1)).toBeGreaterThan(3 * swing(0));
  });

  it('is straight in an error, and the halves are apart', () => {
    const lines = chords();
    for (const line of lines) bend(line, SHAPES.error, 0.6, 1);
    for (const { points, height } of lines) {
      const heights = new Set([...points].filter((_, at) => at % 2 === 1));
      expect(heights.size).toBe(1);
      const middle = ((points[0] ?? 0) + (points.at(-2) ?? 0)) / 2;
      expect(Math.sign(middle)).toBe(-Math.sign(height));
    }
  });
});
