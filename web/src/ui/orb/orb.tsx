import { useEffect, useRef } from 'preact/hooks';
import type { Levels } from '../../engine/api';
import { useReducedMotion } from '../hooks';
import { draw } from './draw';
import { chords } from './geometry';
import { approach, follow, loudness, type Mood, SHAPES } from './moods';

const MAX_STEP_MS = 64;
const MAX_DENSITY = 2;
/** What moves stands still here, at a phase at which every shape shows what it is. */
const STILL_PHASE = 1.1;

export interface OrbProps {
  readonly mood: Mood;
  readonly levels: () => Levels;
}

/** The four-state orb. It says nothing to a screen reader: the label beside it does. */
export function Orb({ mood, levels }: OrbProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const wanted = useRef(mood);
  const still = useReducedMotion();
  wanted.current = mood;

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new mood draws the still picture anew
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext('2d');
    if (!element || !context) return;
    return still
      ? paintOnce(element, context, wanted.current)
      : animate(element, context, () => wanted.current, levels);
  }, [still, levels, still ? mood : null]);

  return (
    <div aria-hidden="true">
      <canvas ref={canvas} class="orb" data-mood={mood} />
    </div>
  );
}

function sized(element: HTMLCanvasElement): number {
  const side = Math.round(element.clientWidth * Math.min(MAX_DENSITY, devicePixelRatio));
  if (element.width !== side) element.width = element.height = side;
  return side;
}

function inkOf(element: HTMLCanvasElement) {
  // Canvas knows no custom properties, so the style sheet hands its colours over in properties that a canvas has.
  const style = getComputedStyle(element);
  return { line: style.color, fade: style.outlineColor };
}

function paintOnce(element: HTMLCanvasElement, context: CanvasRenderingContext2D, mood: Mood): () => void {
  const lines = chords();
  const paint = () => draw(context, sized(element), lines, SHAPES[mood], STILL_PHASE, 0.35, inkOf(element));
  paint();
  // The size changes with the window, the colours with the theme: the page's, or the system's.
  const resized = new ResizeObserver(paint);
  resized.observe(element);
  const chosen = new MutationObserver(paint);
  chosen.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  const system = matchMedia('(prefers-color-scheme: dark)');
  system.addEventListener('change', paint);
  return () => {
    resized.disconnect();
    chosen.disconnect();
    system.removeEventListener('change', paint);
  };
}

function animate(
  element: HTMLCanvasElement,
  context: CanvasRenderingContext2D,
  mood: () => Mood,
  levels: () => Levels,
): () => void {
  const lines = chords();
  let shape = SHAPES[mood()];
  let phase = STILL_PHASE;
  let level = 0;
  let before = performance.now();
  let request = requestAnimationFrame(frame);

  function frame(now: number): void {
    request = requestAnimationFrame(frame);
    const elapsed = Math.min(MAX_STEP_MS, now - before);
    before = now;
    const { microphone, assistant } = levels();
    shape = approach(shape, SHAPES[mood()], elapsed);
    level = follow(level, loudness(mood() === 'speaking' ? assistant : microphone), elapsed);
    phase += (elapsed / 1000) * 2 * Math.PI * shape.pace * (1 + 0.8 * level);
    draw(context, sized(element), lines, shape, phase, level, inkOf(element));
  }
  return () => cancelAnimationFrame(request);
}
