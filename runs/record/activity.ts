/** What a run is doing between two events. Nothing of it is kept: it is for whoever watches. */

import type { Group } from "../../agent/trajectory/group.ts";

/**
 * The work under way. `update` counts from 1; `done` of `total` are attempts that have ended, or rows that were scored.
 */
export type Activity =
  | { phase: "rollouts"; update: number; updates: number; done: number; total: number }
  | { phase: "training" | "checkpoint"; update: number; updates: number }
  | { phase: "evaluation"; done: number; total: number };

/** The newest activity, for one reader: whoever reads slowly misses the older ones and never slows the run. */
export class ActivityFeed implements AsyncIterable<Activity> {
  #unread: Activity | null = null;
  #closed = false;
  #wake: () => void = () => {};

  show(activity: Activity): void {
    this.#unread = activity;
    this.#wake();
  }

  /** Ends the iteration behind what was shown last. */
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

/** Waits for the groups of rollouts and shows, from 0 on, how many attempts have ended. */
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
