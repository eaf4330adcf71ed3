/** Plans the memory of the process that serves a model. */

import type { ServerConfig } from "../../config/server/schema.ts";
import type { JobRunner } from "../../runs/jobs/job_table.ts";
import { fullPlan, type ServingDemand, type ServingPlan } from "../../runs/plan/plan_serving.ts";
import type { ProbedDevice } from "../routing/services.ts";
import { planTarget } from "./plan_target.ts";

/** The number of plans that are kept, because the same base is loaded many times. */
const KEPT_PLANS = 64;

interface PlannerOptions {
  jobs: JobRunner;
  probeDevices: () => Promise<ProbedDevice[]>;
  assumed_device: ProbedDevice;
}

const NEVER = new AbortController().signal;

/**
 * Plans within the server's `[limits].vram`, all of which is for the serving process. Without a known memory size of the
 * device, the plan is not compared with one.
 *
 * @returns A function that throws `out_of_memory` with the `meta` of `insufficient-memory`.
 */
export function servingPlanner(
  config: Pick<ServerConfig, "limits">,
  { jobs, probeDevices, assumed_device }: PlannerOptions,
): (demand: ServingDemand) => Promise<ServingPlan> {
  const plans = new Map<string, Promise<ServingPlan>>();
  const plan = async (demand: ServingDemand) => {
    const shares = { limits: config.limits, max_concurrent_runs: 1 };
    const target = await planTarget({ config: shares, devices: probeDevices, assumed_device }, {});
    // A software device uses the machine's memory, whose size is known.
    if (target.vram_bytes === null && !target.card.facts.software) return fullPlan(demand);
    return await jobs.run("plan_serving", { demand, target }, NEVER);
  };
  return (demand) => {
    const key = JSON.stringify(demand), known = plans.get(key);
    if (known) return known;
    const planning = plan(demand);
    plans.set(key, planning);
    planning.catch(() => plans.delete(key));
    if (plans.size > KEPT_PLANS) plans.delete(plans.keys().next().value!);
    return planning;
  };
}
