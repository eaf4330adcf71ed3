/** Pauses in long work. */

/** Lets other work of the thread go on after every so many units of a long one. */
export class Pauses {
  #units = 0;

  constructor(readonly every: number) {}

  /** Counts work that was done, and pauses when enough has come together. */
  async after(units: number): Promise<void> {
    this.#units += units;
    if (this.#units < this.every) return;
    this.#units = 0;
    await new Promise((resolve) => setTimeout(resolve));
  }
}
