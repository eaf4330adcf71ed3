/** What a fleet's refusals mean for a request. */

import { ServiceError } from "../../core/errors.ts";
import type { Fleet } from "../../runs/fleet/fleet.ts";
import type { KeptRun } from "../../runs/fleet/kept_run.ts";
import { conflict, notFound, Problem } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";

/** For a route's `find`: a run that this server keeps. @throws {Problem} `not-found`. */
export function findKeptRun({ id }: { id: string }, { fleet }: Services): Promise<KeptRun> {
  const run = fleet?.get(id);
  if (!run) throw notFound("There is no such run; GET /v1/runs lists them", "/path/id");
  return Promise.resolve(run);
}

/** The fleet of a server that is not in view mode. */
export function fleetOf({ fleet }: Services): Fleet {
  if (!fleet) throw new Problem("not-implemented", "This server keeps no runs");
  return fleet;
}

/** Waits for a fleet, and makes its refusals problems. @throws {Problem} `conflict` or `device-busy`. */
export async function askFleet<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.code === "conflict") throw conflict(error.message);
    if (error.code !== "device_unavailable") throw error;
    const seconds = error.details.retry_after_seconds;
    const headers = typeof seconds === "number" ? { "retry-after": String(seconds) } : {};
    throw new Problem("device-busy", error.message, { headers });
  }
}
