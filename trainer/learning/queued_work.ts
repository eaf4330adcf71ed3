/** How far the device's queue may be ahead of the host. */

import type { Clock } from "../../core/clock.ts";

/**
 * The most work in the queue, in milliseconds of the device; one micro-batch may be more. Submitted work cannot be taken
 * back, so an abandoned call ends after this time. A wait for the device costs up to 20 ms, in which it idles: at most
 * 1 % of this.
 */
export const MAX_QUEUED_MS = 2000;

/** Decides after which micro-batches a kind of call waits for the device, by the time that its rows took before. */
export class QueuedWork {
  #ms_per_row: number | null = null;
  #rows = 0;
  #since = 0;

  constructor(readonly clock: Clock) {}

  /** Starts to count: the queue is empty. */
  begin(): void {
    this.#rows = 0;
    this.#since = this.clock.monotonic_ms();
  }

  /** Counts a micro-batch. Returns whether to wait for it; the first of all is waited for, because its time is unknown. */
  add(rows: number): boolean {
    this.#rows += rows;
    return this.#ms_per_row === null || this.#rows * this.#ms_per_row >= MAX_QUEUED_MS;
  }

  /** Measures the counted micro-batches: the device has done them. */
  done(): void {
    this.#ms_per_row = (this.clock.monotonic_ms() - this.#since) / this.#rows;
    this.begin();
  }
}
