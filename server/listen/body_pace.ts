/** The slowest pace at which a client may send a body. */

import type { Clock } from "../../core/clock.ts";

/**
 * A client that sends nothing is cut off after `idle_ms`. Every byte adds 1 / `bytes_per_second` seconds to the time
 * that is left, up to `idle_ms`. So a large body may take any time, and a client that sends too slowly is cut off.
 */
export interface BodyPace {
  idle_ms: number;
  bytes_per_second: number;
}

/** Watches one body. Only the time during which the server waits for the client counts. */
export class PaceWatch {
  readonly #options: { pace: BodyPace; clock: Clock; cut: () => void };
  #left_ms: number;

  /** @param options `cut` is called when the time is up. */
  constructor(options: { pace: BodyPace; clock: Clock; cut: () => void }) {
    this.#options = options;
    this.#left_ms = options.pace.idle_ms;
  }

  /** Waits for the next chunk. */
  async next<C extends { value?: Uint8Array | undefined }>(chunk: Promise<C>): Promise<C> {
    const { pace, clock, cut } = this.#options;
    const started_ms = clock.monotonic_ms(), arrived = new AbortController();
    clock.sleep(this.#left_ms, arrived.signal).then(cut, () => {});
    try {
      const result = await chunk;
      const earned_ms = (result.value?.length ?? 0) / pace.bytes_per_second * 1000;
      const waited_ms = clock.monotonic_ms() - started_ms;
      this.#left_ms = Math.max(0, Math.min(pace.idle_ms, this.#left_ms - waited_ms + earned_ms));
      return result;
    } finally {
      arrived.abort();
    }
  }
}
