/** Finds the run that a path names. */

import { notFound } from "../http/problems.ts";
import type { StoredRun } from "../sources/run_source.ts";
import type { Services } from "../routing/services.ts";

/** For a route's `find`. @throws {Problem} `not-found`. */
export async function findRun({ id }: { id: string }, { runs }: Services): Promise<StoredRun> {
  const run = await runs.find(id);
  if (!run) throw notFound("There is no such run; GET /v1/runs lists them", "/path/id");
  return run;
}
