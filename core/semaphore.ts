/** A limited number of permits, lent in the order in which they were asked for. */

import { assert } from "./errors.ts";

interface Waiting {
  permits: number;
  enter(): void;
}

/** Lends `total` permits; who asks for more at once is a mistake of the program. */
export class Semaphore {
  #free: number;
  #waiting: Waiting[] = [];

  constructor(readonly total: number) {
    this.#free = total;
  }

  /** Waits for so many permits, works, and gives them back. @throws The signal's reason, or what the work throws. */
  async use<T>(permits: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    assert(permits <= this.total, "nobody needs more permits than there are");
    await this.#take(permits, signal);
    try {
      return await work();
    } finally {
      this.#free += permits;
      this.#admit();
    }
  }

  #take(permits: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    return new Promise((resolve, reject) => {
      const abort = () => {
        this.#waiting = this.#waiting.filter((other) => other !== waiting);
        this.#admit();
        reject(signal.reason);
      };
      const waiting: Waiting = {
        permits,
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
    while (this.#waiting.length > 0 && this.#waiting[0]!.permits <= this.#free) {
      const next = this.#waiting.shift()!;
      this.#free -= next.permits;
      next.enter();
    }
  }
}
