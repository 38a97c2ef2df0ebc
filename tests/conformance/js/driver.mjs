// What the JavaScript clients' drivers share; see ../python/driver.py, whose twin this is.

import { readFileSync } from 'node:fs';

export const RATE = 24000;
const STEP_MS = 20_000;
const FASTER = 2;

export const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export const setup = JSON.parse(process.argv[2]);
export const { scenario } = setup;

/** A recording in pieces, as a microphone would deliver it. */
export async function* speech(part, milliseconds = 20) {
  const recording = readFileSync(setup.recordings[part]);
  const size = (RATE * 2 * milliseconds) / 1000;
  for (let start = 0; start < recording.length; start += size) {
    yield recording.subarray(start, start + size);
    await sleep(milliseconds / FASTER);
  }
}

/** How long the server speaks an answer, to a tenth of a second; null if the scenario leaves the answer open. */
export const secondsOf = (answer) => answer && tenths(answer.split(' ').length * setup.word_seconds);

/** The length of so many bytes of sound, to a tenth of a second. */
export const duration = (bytes) => tenths(bytes / 2 / RATE);

const tenths = (seconds) => Math.round(seconds * 10) / 10;

/** Where a driver waited last: what a step that takes too long was waiting for. */
let waitingAt;

/** What a client has shown so far. */
export class Seen extends Array {
  #waiting = [];

  add(event) {
    this.push(event);
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** The first event from the since-th on that matches; waits for it. */
  async until(matches, since = 0) {
    waitingAt = new Error('never came');
    for (;;) {
      for (let index = since; index < this.length; index += 1) {
        if (matches(this[index])) return this[index];
      }
      await this.#more();
    }
  }

  /** Wait until a condition, which is looked at after each event, is true. */
  async holds(condition) {
    waitingAt = new Error('never came');
    while (!condition()) await this.#more();
  }

  #more() {
    return new Promise((resolve) => this.#waiting.push(resolve));
  }
}

export function check(condition, what) {
  if (!condition) throw new Error(what);
}

/** Whether two values are equal; null in the expected one stands for anything that is not empty. */
export function matches(actual, expected) {
  if (expected === null) return typeof actual === 'string' ? actual.trim() !== '' : actual > 0;
  if (!Array.isArray(expected)) return JSON.stringify(actual) === JSON.stringify(expected);
  return actual.length === expected.length && expected.every((each, index) => matches(actual[index], each));
}

export function same(actual, expected) {
  check(matches(actual, expected), `${JSON.stringify(actual)} instead of ${JSON.stringify(expected)}`);
}

/** The text is the beginning of the answer: between `least` and `most` of its words. */
export function heard(text, answer, least, most) {
  const words = text.split(' ').filter(Boolean);
  const begins = words.every((word, index) => word === answer.split(' ')[index]);
  check(begins && words.length >= least && words.length <= most, `what was heard is ${JSON.stringify(text)}`);
}

async function run(step) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(waitingAt ?? new Error('takes too long')), STEP_MS);
  });
  try {
    await Promise.race([step(), late]);
    return null;
  } catch (error) {
    const [what, ...places] = String(error?.stack ?? error).split('\n');
    const place = places.find((line) => line.includes('Object.')) ?? places.find((line) => line.includes('_client.mjs'));
    return `${place?.split('/').at(-1).replace(')', '') ?? 'elsewhere'}: ${what}`;
  } finally {
    clearTimeout(timer);
  }
}

export async function main(driver) {
  for (const step of setup.steps) {
    console.log(JSON.stringify({ step, error: await run(() => driver[step]()) }));
  }
  process.exit(0);
}
