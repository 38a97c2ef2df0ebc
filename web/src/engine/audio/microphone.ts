/** The microphone: asked for, switched, lost; and why it may not be had. */

import type { Problem, ProblemCode } from '../api';

const NAMES: Readonly<Record<string, ProblemCode>> = {
  NotAllowedError: 'microphone-denied',
  SecurityError: 'microphone-denied',
  NotFoundError: 'microphone-not-found',
  OverconstrainedError: 'microphone-not-found',
  NotReadableError: 'microphone-in-use',
  AbortError: 'microphone-in-use',
};

/** Of what `getUserMedia` rejects with (Media Capture and Streams, 10.2.3). */
export function microphoneProblem(error: unknown): Problem {
  const name = error instanceof Error ? error.name : '';
  return { code: NAMES[name] ?? 'microphone-failed', detail: String(error) };
}

export interface Surroundings {
  readonly secure: boolean;
  readonly hasDevices: boolean;
  readonly hasWorklet: boolean;
}

/** What keeps this page from a microphone before anybody is asked; null: nothing. */
export function obstacle(here: Surroundings): Problem | null {
  if (!here.secure) return { code: 'insecure-context', detail: 'the page is neither https nor localhost' };
  if (here.hasDevices && here.hasWorklet) return null;
  const missing = here.hasDevices ? 'AudioWorklet' : 'getUserMedia';
  return { code: 'unsupported-browser', detail: `${missing} is missing` };
}

export function surroundings(): Surroundings {
  return {
    secure: globalThis.isSecureContext,
    hasDevices: navigator.mediaDevices !== undefined,
    hasWorklet: 'AudioWorkletNode' in globalThis,
  };
}

/** `id`: null takes the system's default. A remembered device that is gone is no reason to fail. */
export async function openMicrophone(id: string | null): Promise<MediaStream> {
  const wanted = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
  if (id === null) return navigator.mediaDevices.getUserMedia({ audio: wanted });
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { ...wanted, deviceId: { exact: id } } });
  } catch (error) {
    if (microphoneProblem(error).code !== 'microphone-not-found') throw error;
    return navigator.mediaDevices.getUserMedia({ audio: wanted });
  }
}
