/** How a run's process is started, killed, and what remains to be written when it has ended. */

import { ServiceError } from "../../core/errors.ts";
import type { IdleRun } from "../directory/idle_run.ts";
import { failureReason, isLive } from "../record/run.ts";
import type { KeptRun } from "./kept_run.ts";
import { parentCheckpoint } from "./parent_checkpoint.ts";
import type { ChildEnd } from "./run_child.ts";
import { PROCESS_CONFIG } from "./service_record.ts";

/** Whether a cancel has no reason to wait for the process: it reads no commands, or got one already. */
export function isPastWaiting({ child, record: { state }, is_cancelling }: KeptRun): boolean {
  return child !== null && (state === "starting" || state === "stopping" || is_cancelling);
}

/** Kills the process of a run that is to be cancelled. */
export function kill(run: KeptRun): "now" {
  run.stop = "cancel";
  run.child!.kill();
  return "now";
}

/** How `svc` goes on with a run. @throws {ServiceError} `path_not_found` when a fork has lost its checkpoint. */
export async function startArguments(run: KeptRun): Promise<string[]> {
  const own = ["train", `${run.directory}/${PROCESS_CONFIG}`, "--control", "--adopt", run.id];
  if ((await run.checkpoints()).length > 0) return [...own, "--resume"];
  if (run.service.parent === null) return own;
  const parent = await parentCheckpoint(run.directory);
  if (parent !== null) return [...own, "--fork", parent];
  throw new ServiceError("path_not_found", `Cannot start ${run.id}: the checkpoint of its parent is gone`);
}

/** Writes what a process that has ended could not write itself. */
export async function settle(run: KeptRun, { idle, end }: { idle: IdleRun; end: ChildEnd }): Promise<void> {
  const { state } = idle.record;
  if (run.stop === "cancel" && isLive(state)) {
    if (state !== "stopping") await idle.transition("stopping");
    return await idle.transition("cancelled");
  }
  if (isLive(state) && end.fatal) {
    const { code, message } = end.fatal;
    return await idle.transition("failed", { reason: failureReason(code), detail: message });
  }
  await idle.recover();
}
