/** The observe directories that a server reads, with what it remembers of them. */

import { ObservedRun } from "./observed_run.ts";
import { LineTables } from "./update_lines.ts";

/** The most directories whose indexes are remembered. */
export const MAX_RUNS = 32;

/**
 * Finds the trajectories of runs by their directories.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { writeObserved } from "./observed_testing.ts";
 *
 * const directory = await Deno.makeTempDir();
 * await writeObserved(directory, { updates: 3 });
 * const run = new ObservedRuns().in(directory);
 * assert.equal((await run.index()).updates.length, 3);
 * const { items, next } = await run.groups(2, { after: -1, limit: 1 });
 * assert.deepEqual([items.length, next], [1, 0]); // One of two groups: the next page begins after group 0.
 * await Deno.remove(directory, { recursive: true });
 * ```
 */
export class ObservedRuns {
  readonly #tables = new LineTables();
  readonly #runs = new Map<string, ObservedRun>();

  /** The run that exports its trajectories to a directory. The directory used longest ago is forgotten first. */
  in(directory: string): ObservedRun {
    const run = this.#runs.get(directory) ?? new ObservedRun(directory, this.#tables);
    this.#runs.delete(directory);
    this.#runs.set(directory, run);
    for (const oldest of this.#runs.keys()) {
      if (this.#runs.size <= MAX_RUNS) break;
      this.#runs.delete(oldest);
    }
    return run;
  }
}
