/** Detects a process that sends nothing for too long although it has open requests. */

import type { Clock } from "../../core/clock.ts";

export interface WatchdogOptions {
  clock: Clock;
  /** Whether the process has open requests now. */
  isAsked: () => boolean;
  /** Called once, after a silence longer than the limit. */
  silent: (seconds: number) => void;
}

/** Watches from its first limit until it is closed. */
export class Watchdog {
  readonly #options: WatchdogOptions;
  #limit_ms = Infinity;
  #heard_ms = 0;
  #timer = new AbortController();

  constructor(options: WatchdogOptions) {
    this.#options = options;
  }

  /** Sets the limit, and starts to count the silence anew. */
  limit(limit_ms: number): void {
    this.#limit_ms = limit_ms;
    this.heard();
    this.#timer.abort();
    this.#timer = new AbortController();
    this.#watch(this.#timer.signal);
  }

  /** Starts to count the silence anew: the process has sent something, or gets a request after it had none. */
  heard(): void {
    this.#heard_ms = this.#options.clock.monotonic_ms();
  }

  /** Ends the watch. */
  close(): void {
    this.#timer.abort();
  }

  async #watch(signal: AbortSignal): Promise<void> {
    const { clock, isAsked, silent } = this.#options, limit_ms = this.#limit_ms;
    while (!signal.aborted) {
      const left_ms = isAsked() ? this.#heard_ms + limit_ms - clock.monotonic_ms() : limit_ms;
      if (left_ms <= 0) return silent(limit_ms / 1000);
      await clock.sleep(left_ms, signal).catch(() => {});
    }
  }
}
