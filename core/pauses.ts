/** Pauses in long work. */

/**
 * Lets other work of the thread run. A timer, because between turns of `setImmediate` Deno leaves requests waiting for
 * half a second.
 */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

/** Pauses long work after a number of units, so that other work of the thread can run. */
export class Pauses {
  #units = 0;

  constructor(readonly every: number) {}

  /** Counts finished units, and pauses when there are enough since the last pause. */
  async after(units: number): Promise<void> {
    this.#units += units;
    if (this.#units < this.every) return;
    this.#units = 0;
    await nextTurn();
  }
}
