/** Maps errors of the fleet to problems of a request. */

import { ServiceError } from "../../core/errors.ts";
import type { Fleet } from "../../runs/fleet/fleet.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import { notFound, Problem, problemAt } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";

/** For a route's `find`: a run of this server's fleet. @throws {Problem} `not-found`. */
export function findManagedRun({ id }: { id: string }, { fleet }: Services): Promise<ManagedRun> {
  const run = fleet?.get(id);
  if (!run) throw notFound("There is no such run; GET /v1/runs lists them", "/path/id");
  return Promise.resolve(run);
}

/** The fleet of a server that is not in view mode. */
export function fleetOf({ fleet }: Services): Fleet {
  if (!fleet) throw new Problem("not-implemented", "This server has no runs that take commands");
  return fleet;
}

/** Waits for an answer of the fleet, and converts its refusals. @throws {Problem} `conflict` or `device-busy`. */
export async function askFleet<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    const is_refusal = error.code === "conflict" || error.code === "device_unavailable";
    throw is_refusal ? problemAt("", error) : error;
  }
}
