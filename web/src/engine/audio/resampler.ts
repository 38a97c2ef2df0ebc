/**
 * Conversion between sampling rates as a stream: a polyphase windowed-sinc filter (Kaiser window, Oppenheim and Schafer,
 * Discrete-Time Signal Processing, 7.5.3). However a signal is cut into blocks, the samples are the same.
 */

/** Attenuation of what would alias or image, dB. */
const STOP_DB = 80;
/** The band above this share of the lower Nyquist frequency is the filter's slope. */
const PASS_SHARE = 0.875;

function gcd(a: number, b: number): number {
  return b === 0 ? a : gcd(b, a % b);
}

/** Modified Bessel function of the first kind, order zero. */
function bessel0(x: number): number {
  let term = 1;
  let sum = 1;
  for (let k = 1; term > sum * 1e-12; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

/** One row of coefficients for each phase, each in the order in which the samples lie. */
function design(inputRate: number, up: number, half: number, cutoff: number): Float32Array[] {
  const beta = 0.1102 * (STOP_DB - 8.7);
  const scale = 1 / bessel0(beta);
  const taps = 2 * half;
  return Array.from({ length: up }, (_, phase) => {
    const row = new Float32Array(taps);
    for (let tap = 0; tap < taps; tap++) {
      // The distance, in input samples, from the output's place to the sample that this coefficient weighs.
      const distance = phase / up + half - 1 - tap;
      const inside = 1 - (distance / half) ** 2;
      if (inside <= 0) continue;
      const angle = (2 * Math.PI * cutoff * distance) / inputRate;
      const sinc = angle === 0 ? 1 : Math.sin(angle) / angle;
      row[tap] = ((2 * cutoff) / inputRate) * sinc * bessel0(beta * Math.sqrt(inside)) * scale;
    }
    return row;
  });
}

/** Mono samples at one rate in, at another out. Adds no delay: sample `n` out lies at the time `n / outputRate`. */
export class Resampler {
  readonly #up: number;
  readonly #down: number;
  readonly #half: number;
  readonly #rows: readonly Float32Array[];
  #waiting: Float32Array;
  #filled = 0;
  #phase = 0;
  #out = new Float32Array(256);

  /** Rates in whole Hz. */
  constructor(inputRate: number, outputRate: number) {
    if (!Number.isInteger(inputRate) || !Number.isInteger(outputRate) || inputRate <= 0 || outputRate <= 0) {
      throw new RangeError(`sampling rates are whole numbers of Hz, not ${inputRate} and ${outputRate}`);
    }
    const common = gcd(inputRate, outputRate);
    this.#up = outputRate / common;
    this.#down = inputRate / common;
    if (inputRate === outputRate) {
      this.#half = 0;
      this.#rows = [];
    } else {
      const nyquist = Math.min(inputRate, outputRate) / 2;
      const slope = (1 - PASS_SHARE) * nyquist;
      const length = ((STOP_DB - 7.95) / 14.36) * (inputRate / slope);
      this.#half = Math.ceil(length / 2);
      this.#rows = design(inputRate, this.#up, this.#half, nyquist - slope / 2);
    }
    this.#waiting = new Float32Array(1024);
    this.#restart();
  }

  /** The samples that `input` completes. They are overwritten by the next call. */
  push(input: Float32Array): Float32Array {
    if (this.#half === 0) return input;
    this.#append(input);
    return this.#convert();
  }

  /** The samples that wait for ones to come, as if silence did. The next call to `push` begins another signal. */
  flush(): Float32Array {
    if (this.#half === 0) return new Float32Array(0);
    this.#append(new Float32Array(this.#half));
    const rest = this.#convert();
    this.#restart();
    return rest;
  }

  #restart(): void {
    this.#phase = 0;
    this.#filled = Math.max(0, this.#half - 1);
    this.#reserve(this.#filled);
    this.#waiting.fill(0);
  }

  #append(input: Float32Array): void {
    this.#reserve(this.#filled + input.length);
    this.#waiting.set(input, this.#filled);
    this.#filled += input.length;
  }

  #reserve(size: number): void {
    if (size <= this.#waiting.length) return;
    const larger = new Float32Array(2 * size);
    larger.set(this.#waiting.subarray(0, this.#filled));
    this.#waiting = larger;
  }

  #convert(): Float32Array {
    const taps = 2 * this.#half;
    const most = Math.ceil((this.#filled * this.#up) / this.#down) + 1;
    if (most > this.#out.length) this.#out = new Float32Array(2 * most);
    let at = 0;
    let made = 0;
    while (at + taps <= this.#filled) {
      this.#out[made++] = dot(this.#rows[this.#phase] as Float32Array, this.#waiting, at);
      this.#phase += this.#down;
      at += Math.floor(this.#phase / this.#up);
      this.#phase %= this.#up;
    }
    // A long step can reach beyond what is there: the rest of it is still to be taken.
    const used = Math.min(at, this.#filled);
    this.#waiting.copyWithin(0, used, this.#filled);
    this.#filled -= used;
    this.#phase += (at - used) * this.#up;
    return this.#out.subarray(0, made);
  }
}

function dot(row: Float32Array, samples: Float32Array, at: number): number {
  let sum = 0;
  for (let tap = 0; tap < row.length; tap++) sum += (row[tap] as number) * (samples[at + tap] as number);
  return sum;
}
