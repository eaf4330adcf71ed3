/** The logs of the runs that requests name. */

import { eventsPathOf } from "../../runs/directory/run_directory.ts";
import { type RunLog, runLogOf } from "../../runs/results/run_log.ts";
import type { StoredRun } from "../sources/run_source.ts";
import type { Services } from "../routing/services.ts";

/** Brings the index of a run up to date. @returns The id under which the index has the run. */
export async function followRun(run: StoredRun, { index }: Pick<Services, "index">): Promise<string> {
  const log = logOf(run);
  if (log) await index.follow(log);
  return run.record.id;
}

/** The log of a run; null when it has none. */
function logOf(run: StoredRun): RunLog | null {
  return runLogOf(run.record.id, run);
}

/** The event log of a run whose events the index knows. */
export function eventsPath(run: StoredRun): string {
  return eventsPathOf(run.directory!);
}
