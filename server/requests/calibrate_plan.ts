/** Measures a planned run on the device. */

import { ServiceError } from "../../core/errors.ts";
import { calibratedPlan, overflow } from "../../runs/plan/calibrated_plan.ts";
import type { Plan } from "../../runs/plan/plan.ts";
import { Problem } from "../http/problems.ts";
import { askFleet, fleetOf } from "../resources/fleet_problems.ts";
import type { Services } from "../routing/services.ts";
import type { PlannedRunRequest } from "./plan_run.ts";

/**
 * The plan with measurements instead of its estimates.
 *
 * @throws {Problem} `device-busy` when the device is taken, `timeout`, `invalid-request` when a file has changed since the
 * run was planned, or `insufficient-memory` when the measured memory does not fit.
 */
export async function calibratePlan(
  run: PlannedRunRequest,
  { services, signal }: { services: Services; signal: AbortSignal },
): Promise<Plan> {
  const { planned: { plan }, processConfig, fieldOf } = run;
  const timeout_ms = services.config.command_timeout_seconds * 1000;
  let calibrated = plan, has_failed = false;
  try {
    const measured = await askFleet(
      fleetOf(services).calibrate({ plan, processConfig }, { timeout_ms, signal }),
    );
    calibrated = calibratedPlan(plan, measured);
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.code === "cancelled" && error.details.is_late) throw new Problem("timeout", error.message);
    if (error.code !== "out_of_memory") throw run.fileProblem(error) ?? error;
    has_failed = true;
  }
  const refused = overflow(calibrated, has_failed);
  if (refused === null) return calibrated;
  const { key, message } = refused, pointer = fieldOf(key);
  const meta = { ...refused.meta, unlocks: has_failed ? [] : await unlocksOf(run, calibrated) };
  throw new Problem("insufficient-memory", `Cannot fit the run on the device: ${message}`, {
    errors: [{ pointer, code: "out_of_range", message }],
    meta: JSON.parse(JSON.stringify(meta)),
  });
}

/**
 * The degradations with which the run would fit. The run is planned again with a budget that is reduced by the excess of
 * the measurement over the plan. When the device refused memory, its size is not known.
 */
async function unlocksOf(
  { planned: { plan }, unlocksWithin }: PlannedRunRequest,
  calibrated: Plan,
): Promise<readonly string[]> {
  const { vram_budget_bytes, peak_bytes } = plan.memory;
  return await unlocksWithin(vram_budget_bytes! - (calibrated.memory.peak_bytes - peak_bytes));
}
