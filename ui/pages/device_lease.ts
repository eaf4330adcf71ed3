/** Which runs have the device, and which wait for it. */

import type { Run } from "../../api/types.ts";

/** The states in which a run has a process. */
const HOLDING: ReadonlySet<Run["state"]> = new Set(["starting", "running", "pausing", "stopping"]);

/** The runs with the device, and those that wait, oldest first. @param runs Newest first. */
export function lentTo(runs: readonly Run[]): { holders: Run[]; queue: Run[] } {
  return {
    holders: runs.filter(({ state }) => HOLDING.has(state)),
    queue: runs.filter(({ state }) => state === "queued").reverse(),
  };
}
