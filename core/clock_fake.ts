/** A clock for tests, which moves it by hand. */

import type { Clock } from "./clock.ts";

interface Sleeper {
  due_ms: number;
  order: number;
  wake: () => void;
}

/** A clock that moves only when a test moves it. Sleepers wake in the order of their due times. */
export class ManualClock implements Clock {
  #now_ms: number;
  /** How far the wall clock was set. */
  #jumped_ms = 0;
  #order = 0;
  readonly #sleepers: Sleeper[] = [];

  constructor(start_ms = Date.UTC(2026, 0, 1)) {
    this.#now_ms = start_ms;
  }

  wall_ms(): number {
    return this.#now_ms + this.#jumped_ms;
  }

  /** Sets the wall clock forward or back, as an administrator or a time server does; nothing else changes. */
  jump(delta_ms: number): void {
    this.#jumped_ms += delta_ms;
  }

  monotonic_ms(): number {
    return this.#now_ms;
  }

  /** The number of sleepers. */
  get sleeping(): number {
    return this.#sleepers.length;
  }

  sleep(delay_ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const sleeper: Sleeper = {
        due_ms: this.#now_ms + delay_ms,
        order: this.#order++,
        wake: () => {
          signal?.removeEventListener("abort", abort);
          resolve();
        },
      };
      const abort = () => {
        this.#sleepers.splice(this.#sleepers.indexOf(sleeper), 1);
        reject(signal!.reason);
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.#sleepers.push(sleeper);
    });
  }

  /** Advances time by `delta_ms` and wakes the sleepers that fall due, one after the other. */
  async advance(delta_ms: number): Promise<void> {
    const end_ms = this.#now_ms + delta_ms;
    while (true) {
      this.#sleepers.sort((a, b) => a.due_ms - b.due_ms || a.order - b.order);
      const next = this.#sleepers[0];
      if (!next || next.due_ms > end_ms) break;
      this.#sleepers.shift();
      this.#now_ms = next.due_ms;
      next.wake();
      await Promise.resolve();
    }
    this.#now_ms = end_ms;
    await Promise.resolve();
  }
}

/** A manual clock that lets the first sleeper of some length wake, whenever it comes to sleep. */
export class WakingClock extends ManualClock {
  readonly #pending: number[] = [];

  override async sleep(delay_ms: number, signal?: AbortSignal): Promise<void> {
    this.#pending.push(delay_ms);
    try {
      await super.sleep(delay_ms, signal);
    } finally {
      this.#pending.splice(this.#pending.indexOf(delay_ms), 1);
    }
  }

  /** Waits until somebody sleeps for this time. */
  async sleeper(delay_ms: number): Promise<void> {
    while (!this.#pending.includes(delay_ms)) await new Promise((resolve) => setTimeout(resolve, 1));
  }

  /** Advances the clock by this time once somebody sleeps for it. */
  async wake(delay_ms: number): Promise<void> {
    await this.sleeper(delay_ms);
    await this.advance(delay_ms);
  }
}
