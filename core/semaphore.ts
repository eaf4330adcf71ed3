/** A limited number of permits, granted in the order of the requests. */

import { assert } from "./errors.ts";

interface Waiting {
  permits: number;
  enter(): void;
}

/** Grants up to `total` permits. Asking for more than `total` at once is a programmer's mistake. */
export class Semaphore {
  #free: number;
  #waiting: Waiting[] = [];

  constructor(readonly total: number) {
    this.#free = total;
  }

  /** How many wait for permits. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /** Waits for the permits, runs the work, and releases them. @throws The signal's reason, or the work's error. */
  async use<T>(permits: number, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    using _ = await this.hold(permits, signal);
    return await work();
  }

  /** Waits for the permits and holds them until they are disposed of. @throws The signal's reason. */
  async hold(permits: number, signal: AbortSignal): Promise<Disposable> {
    assert(permits <= this.total, "nobody needs more permits than there are");
    await this.#take(permits, signal);
    return {
      [Symbol.dispose]: () => {
        this.#free += permits;
        this.#admit();
      },
    };
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
