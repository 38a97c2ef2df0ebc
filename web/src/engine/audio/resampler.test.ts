import { describe, expect, it } from 'vitest';
import { RATE } from './pcm';
import { Resampler } from './resampler';

function tone(hz: number, rate: number, seconds: number): Float32Array {
  return Float32Array.from({ length: Math.round(rate * seconds) }, (_, n) => Math.sin((2 * Math.PI * hz * n) / rate));
}

function convert(samples: Float32Array, from: number, to: number, block = 128): Float32Array {
  const resampler = new Resampler(from, to);
  const out: number[] = [];
  for (let at = 0; at < samples.length; at += block) out.push(...resampler.push(samples.subarray(at, at + block)));
  out.push(...resampler.flush());
  return Float32Array.from(out);
}

function power(samples: Float32Array): number {
  return samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length;
}

/** dB, without the edges, where the filter hears the silence around. */
function snr(signal: Float32Array, ideal: Float32Array, edge = 400): number {
  const inner = (samples: Float32Array) => samples.subarray(edge, Math.min(signal.length, ideal.length) - edge);
  const wanted = inner(ideal);
  const error = inner(signal).map((sample, n) => sample - (wanted[n] as number));
  return 10 * Math.log10(power(wanted) / power(error));
}

const CONTEXT_RATES = [16_000, 32_000, 44_100, 48_000, 96_000];

describe.each(CONTEXT_RATES)('from %i Hz to 24 kHz', (rate) => {
  it.each([100, 1000, 3400])('a tone of %i Hz stays what it was, without a delay, 70 dB above the error', (hz) => {
    expect(snr(convert(tone(hz, rate, 0.5), rate, RATE), tone(hz, RATE, 0.5))).toBeGreaterThan(70);
  });

  it('makes as many samples as the time holds', () => {
    expect(convert(tone(440, rate, 0.5), rate, RATE)).toHaveLength(RATE / 2);
  });

  it('makes the same samples however the signal is cut', () => {
    const signal = tone(440, rate, 0.2);
    expect(convert(signal, rate, RATE, 1000)).toEqual(convert(signal, rate, RATE, 37));
  });
});

describe.each([44_100, 48_000, 96_000])('what 24 kHz cannot hold, from %i Hz', (rate) => {
  it.each([12_300, 13_000, 16_000, 20_000])('a tone of %i Hz is 70 dB softer, not another tone', (hz) => {
    const out = convert(tone(hz, rate, 0.5), rate, RATE).subarray(400, -400);
    expect(10 * Math.log10(power(out) / 0.5)).toBeLessThan(-70);
  });
});

describe.each([44_100, 48_000])('from 24 kHz to %i Hz', (rate) => {
  it.each([300, 3400, 9000])('a tone of %i Hz has no images', (hz) => {
    expect(snr(convert(tone(hz, RATE, 0.5), RATE, rate), tone(hz, rate, 0.5))).toBeGreaterThan(70);
  });
});

it('passes a signal of the right rate through', () => {
  const signal = tone(440, RATE, 0.1);
  expect(convert(signal, RATE, RATE)).toEqual(signal);
});

it('begins a new signal after a flush', () => {
  const resampler = new Resampler(48_000, RATE);
  const signal = tone(440, 48_000, 0.1);
  const once = () => [...resampler.push(signal), ...resampler.flush()];
  expect(once()).toEqual(once());
});

it.each([0, -1, 44_100.5])('refuses a rate of %d', (rate) => {
  expect(() => new Resampler(rate, RATE)).toThrow(RangeError);
});
