/** Keeps the screen on during a conversation. */

export class WakeLock {
  #wanted = false;
  #lock: WakeLockSentinel | null = null;
  readonly #returned = () => {
    if (document.visibilityState === 'visible') void this.#request();
  };

  hold(): void {
    if (this.#wanted) return;
    this.#wanted = true;
    // Browsers let go of it whenever the page is hidden.
    document.addEventListener('visibilitychange', this.#returned);
    void this.#request();
  }

  release(): void {
    this.#wanted = false;
    document.removeEventListener('visibilitychange', this.#returned);
    void this.#lock?.release();
    this.#lock = null;
  }

  async #request(): Promise<void> {
    try {
      const lock = await navigator.wakeLock?.request('screen');
      if (this.#wanted) this.#lock = lock ?? null;
      else await lock?.release();
    } catch {
      // A low battery or a policy: the conversation goes on without it.
    }
  }
}
