/** Callers that wait for the same change, each until its own signal aborts. */

/**
 * Unlike a race of promises, a wait leaves nothing behind, neither at its signal nor at a promise of the change, so a
 * caller may wait any number of times.
 */
export class Waiters {
  readonly #all = new Set<() => void>();

  /** Resolves at the next {@link wake}, or when the signal aborts. */
  wait(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        this.#all.delete(done);
        signal.removeEventListener("abort", done);
        resolve();
      };
      signal.addEventListener("abort", done);
      this.#all.add(done);
    });
  }

  /** Ends all waits. */
  wake(): void {
    for (const done of [...this.#all]) done();
  }
}
