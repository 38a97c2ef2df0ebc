/** The orb on a canvas. */

import { bend, type Line } from './geometry';
import type { Shape } from './moods';

export interface Ink {
  /** Any CSS colours. */
  readonly line: string;
  readonly fade: string;
}

const TURN = 2 * Math.PI;

/**
 * Draws one frame. `side`: of the square canvas, in its own units. `phase`: radians, of everything that moves.
 * `level`: loudness, 0 to 1.
 */
export function draw(
  context: CanvasRenderingContext2D,
  side: number,
  lines: readonly Line[],
  shape: Shape,
  phase: number,
  level: number,
  ink: Ink,
): void {
  const radius = side * 0.36 * shape.size * (1 + 0.05 * shape.gain * level);
  context.clearRect(0, 0, side, side);
  context.save();
  context.translate(side / 2, side / 2);
  context.lineCap = 'round';
  context.lineJoin = 'round';
  engrave(context, radius, lines, shape, phase, level, ink);
  context.strokeStyle = ink.line;
  context.fillStyle = ink.line;
  if (shape.ring > 0.01) ring(context, radius, shape.ring, level);
  if (shape.echo > 0.01) echoes(context, radius, shape.echo, phase, level);
  if (shape.beads > 0.01) beads(context, radius, shape.beads, phase);
  context.restore();
}

function engrave(
  context: CanvasRenderingContext2D,
  radius: number,
  lines: readonly Line[],
  shape: Shape,
  phase: number,
  level: number,
  ink: Ink,
): void {
  const paint = context.createLinearGradient(-radius * 0.7, -radius, radius * 0.7, radius);
  paint.addColorStop(0, ink.fade);
  paint.addColorStop(0.75, ink.line);
  context.strokeStyle = paint;
  context.lineWidth = Math.max(1.25, radius * (0.0155 + 0.008 * shape.dashes));
  for (const [index, line] of lines.entries()) {
    bend(line, shape, phase, level);
    const { points } = line;
    const dash = radius * (0.12 + 0.16 * ((index * 7) % 5) * 0.25);
    const gap = shape.dashes * radius * (0.1 + 0.07 * ((index * 3) % 4));
    context.setLineDash(gap > 0.5 ? [dash, gap] : []);
    // Neighbours run against each other, at their own speeds.
    context.lineDashOffset = (index % 2 === 0 ? 1 : -1) * phase * radius * (0.09 + 0.03 * (index % 3));
    context.globalAlpha = 0.7 + 0.3 * line.height;
    context.beginPath();
    for (let at = 0; at < points.length; at += 2) {
      context.lineTo((points[at] ?? 0) * radius, (points[at + 1] ?? 0) * radius);
    }
    context.stroke();
  }
  context.setLineDash([]);
}

/** Listening: one ring, which widens and thickens with the voice. */
function ring(context: CanvasRenderingContext2D, radius: number, visible: number, level: number): void {
  context.globalAlpha = visible * (0.55 + 0.45 * level);
  context.lineWidth = radius * (0.014 + 0.07 * level);
  circle(context, radius * (1.13 + 0.05 * level));
  context.stroke();
}

/** Speaking: rings that leave the sphere. */
function echoes(
  context: CanvasRenderingContext2D,
  radius: number,
  visible: number,
  phase: number,
  level: number,
): void {
  context.lineWidth = Math.max(1, radius * 0.012);
  for (let index = 0; index < 3; index++) {
    const way = (phase / TURN + index / 3) % 1;
    context.globalAlpha = visible * (1 - way) * way * 4 * (0.2 + 0.55 * level);
    circle(context, radius * (1.06 + 0.3 * way));
    context.stroke();
  }
}

/** Thinking: three beads in orbit. */
function beads(context: CanvasRenderingContext2D, radius: number, visible: number, phase: number): void {
  context.globalAlpha = visible * 0.28;
  context.lineWidth = Math.max(1, radius * 0.01);
  circle(context, radius * 1.3);
  context.stroke();
  for (let index = 0; index < 3; index++) {
    const angle = phase * 1.2 + index * 0.36;
    context.globalAlpha = visible * (0.55 + 0.22 * index);
    context.beginPath();
    const size = radius * (0.05 + 0.018 * index);
    context.arc(Math.cos(angle) * radius * 1.3, Math.sin(angle) * radius * 1.3, size, 0, TURN);
    context.fill();
  }
}

function circle(context: CanvasRenderingContext2D, radius: number): void {
  context.beginPath();
  context.arc(0, 0, radius, 0, TURN);
}
