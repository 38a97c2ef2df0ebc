/** A queue of samples in a ring that grows to what it has to hold, with positions that only ever count up. */
export class Ring {
  #data = new Float32Array(1 << 15);
  #read = 0;
  #write = 0;

  /** Samples that were ever taken or dropped. */
  get read(): number {
    return this.#read;
  }

  /** Samples that were ever put. */
  get write(): number {
    return this.#write;
  }

  get size(): number {
    return this.#write - this.#read;
  }

  put(samples: Float32Array): void {
    this.#reserve(this.size + samples.length);
    const at = this.#write % this.#data.length;
    const first = Math.min(samples.length, this.#data.length - at);
    this.#data.set(samples.subarray(0, first), at);
    this.#data.set(samples.subarray(first), 0);
    this.#write += samples.length;
  }

  /** Fill `output` from its beginning; returns how many samples there were. */
  take(output: Float32Array): number {
    const count = Math.min(output.length, this.size);
    for (let i = 0; i < count; i++) output[i] = this.#data[(this.#read + i) % this.#data.length] as number;
    this.#read += count;
    return count;
  }

  /** Drop all but the oldest `count` samples. The positions of what is put from now on follow them. */
  keep(count: number): void {
    this.#write = this.#read + Math.min(count, this.size);
  }

  /** Scale what is held by a straight line from one factor to another. */
  ramp(from: number, to: number): void {
    for (let i = 0; i < this.size; i++) {
      const at = (this.#read + i) % this.#data.length;
      this.#data[at] = (this.#data[at] as number) * (from + ((to - from) * (i + 1)) / this.size);
    }
  }

  #reserve(size: number): void {
    if (size <= this.#data.length) return;
    const larger = new Float32Array(2 ** Math.ceil(Math.log2(size)));
    for (let at = this.#read; at < this.#write; at++) {
      larger[at % larger.length] = this.#data[at % this.#data.length] as number;
    }
    this.#data = larger;
  }
}
