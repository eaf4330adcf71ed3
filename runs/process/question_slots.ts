/** Room for a limited number of sequences, lent in the order in which it was asked for. */

import { assert } from "../../core/errors.ts";

interface Waiting {
  slots: number;
  enter(): void;
}

export class QuestionSlots {
  #free: number;
  #waiting: Waiting[] = [];

  constructor(readonly total: number) {
    this.#free = total;
  }

  /** Waits for `slots` of them, works, and gives them back. @throws The signal's reason, or what the work throws. */
  async use<T>(slots: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    assert(slots <= this.total, "no question needs more slots than there are");
    await this.#take(slots, signal);
    try {
      return await work();
    } finally {
      this.#free += slots;
      this.#admit();
    }
  }

  #take(slots: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        this.#admit();
        reject(signal.reason);
      };
      const waiting: Waiting = {
        slots,
        enter() {
          signal.removeEventListener("abort", abort);
          resolve();
        },
      };
      signal.addEventListener("abort", abort, { once: true });
      this.#waiting.push(waiting);
      this.#admit();
    });
  }

  #admit(): void {
    while (this.#waiting.length > 0 && this.#waiting[0]!.slots <= this.#free) {
      const next = this.#waiting.shift()!;
      this.#free -= next.slots;
      next.enter();
    }
  }
}
