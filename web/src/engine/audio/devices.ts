/** Which microphones and loudspeakers there are, and which ones were chosen. */

import type { Device, DeviceReport } from '../api';

const KEY = 'voice-omni.devices';

export interface Choice {
  readonly microphone: string | null;
  readonly speaker: string | null;
}

/** Stored text is anybody's: what is not as expected counts as no choice. */
export function rememberedDevices(storage: Storage | null): Choice {
  const id = (value: unknown) => (typeof value === 'string' && value !== '' ? value : null);
  try {
    const stored: unknown = JSON.parse(storage?.getItem(KEY) ?? 'null');
    if (typeof stored !== 'object' || stored === null) return { microphone: null, speaker: null };
    return {
      microphone: id('microphone' in stored ? stored.microphone : null),
      speaker: id('speaker' in stored ? stored.speaker : null),
    };
  } catch {
    return { microphone: null, speaker: null };
  }
}

export function rememberDevices(storage: Storage | null, choice: Choice): void {
  try {
    storage?.setItem(KEY, JSON.stringify(choice));
  } catch {
    // Private windows and full disks store nothing; the choice holds for this visit.
  }
}

/** Browsers list their default a second time under a name of its own. */
function listed(devices: readonly MediaDeviceInfo[], kind: MediaDeviceKind): Device[] {
  return devices
    .filter((device) => device.kind === kind && !['', 'default', 'communications'].includes(device.deviceId))
    .map((device) => ({ id: device.deviceId, label: device.label }));
}

export async function devices(): Promise<Pick<DeviceReport, 'microphones' | 'speakers'>> {
  const found = (await navigator.mediaDevices?.enumerateDevices()) ?? [];
  return { microphones: listed(found, 'audioinput'), speakers: listed(found, 'audiooutput') };
}
