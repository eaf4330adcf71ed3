/** A run's activity between two events. It is shown and not stored. */

import type { Group } from "../../agent/trajectory/group.ts";

/**
 * The current work. `update` counts from 1, `updates` is null when only time limits the run; `done` of `total` are ended
 * attempts or scored rows, `kept` are collected rows.
 */
export type Activity =
  | { phase: "rollouts"; update: number; updates: number | null; done: number; total: number }
  | { phase: "training" | "checkpoint"; update: number; updates: number | null }
  | { phase: "evaluation"; done: number; total: number }
  | { phase: "collection"; done: number; total: number; kept: number };

/** The newest activity, for one reader. A slow reader misses older ones and never slows the run. */
export class ActivityFeed implements AsyncIterable<Activity> {
  #unread: Activity | null = null;
  #closed = false;
  #wake: () => void = () => {};

  show(activity: Activity): void {
    this.#unread = activity;
    this.#wake();
  }

  /** Ends the iteration after the newest activity. */
  close(): void {
    this.#closed = true;
    this.#wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Activity, void> {
    while (true) {
      const activity = this.#unread;
      this.#unread = null;
      if (activity) yield activity;
      else if (this.#closed) return;
      else await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }
}

/** Waits for the groups of rollouts and shows how many attempts have ended, from 0. */
export async function followRollouts(
  rollouts: AsyncGenerator<number, Group[], void>,
  show: (ended: number) => void,
): Promise<Group[]> {
  show(0);
  while (true) {
    const { done, value } = await rollouts.next();
    if (done) return value;
    show(value);
  }
}
