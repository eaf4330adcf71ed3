/** The arguments that start a run's process, its kill, and the events that are written after its end. */

import { isDeviceTaken } from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";
import type { IdleRun } from "../directory/idle_run.ts";
import { failureReason, isLive } from "../record/run.ts";
import { logMissingCommands } from "./accepted_commands.ts";
import { failedByLostFile } from "./changed_files.ts";
import type { DeviceLease } from "./device_lease.ts";
import type { ManagedRun } from "./managed_run.ts";
import { parentCheckpoint } from "./parent_checkpoint.ts";
import type { ChildEnd } from "./run_child.ts";
import { type CancelArguments, PROCESS_CONFIG } from "./service_record.ts";

/**
 * Whether a cancel "now" kills the process at once instead of asking it to cancel. A process that is starting or stopping
 * reads no commands, and one that was asked to cancel before has not done so yet.
 */
export function mustKill({ child, record: { state }, is_cancelling }: ManagedRun): boolean {
  return child !== null && (state === "starting" || state === "stopping" || is_cancelling);
}

/**
 * Waits while a run's process is being started or is ending. Such a process answers no requests, and nobody else can have
 * the device.
 */
export async function untilStartedOrEnded(
  run: ManagedRun,
  device: Pick<DeviceLease, "has" | "freed">,
): Promise<void> {
  if (!device.has(run.id)) return;
  if (run.child && !isLive(run.record.state)) await device.freed(run.id);
  // The process is being started, or its last events are being written.
  else if (!run.child) await run.exclusively(() => Promise.resolve());
}

/**
 * Kills the process of a run that is to be cancelled, which another cancel may be doing already.
 *
 * @throws {ServiceError} `conflict` when it has just ended by itself.
 */
export async function kill(run: ManagedRun, { at, checkpoint }: CancelArguments): Promise<"now"> {
  const is_again = run.killed_for !== null, killed_for = run.killed_for ??= { at, checkpoint };
  // A server that starts after a crash of this one reads it. The process is killed even when the disk is full.
  await run.change({ killed_for }).catch(() => {});
  const { child, record: { state } } = run;
  if (is_again && state === "cancelled") return "now";
  if (!child || !isLive(state)) {
    throw new ServiceError("conflict", `Cannot cancel the run: the run is ${state}`);
  }
  child.kill();
  return "now";
}

/** The arguments of `svc` for a run's process. @throws {ServiceError} `path_not_found` when a fork has lost its checkpoint. */
export async function startArguments(run: ManagedRun): Promise<string[]> {
  const { learning_rate: lr } = run.service, rate = lr === null ? [] : ["--learning-rate", String(lr)];
  const own = ["train", `${run.directory}/${PROCESS_CONFIG}`, "--control", "--adopt", run.id, ...rate];
  if ((await run.checkpoints()).length > 0) return [...own, "--resume"];
  if (run.service.parent === null) return own;
  const parent = await parentCheckpoint(run.directory);
  if (parent !== null) return [...own, "--fork", parent];
  throw new ServiceError("path_not_found", `Cannot start ${run.id}: the checkpoint of its parent is gone`);
}

/**
 * Writes the events and the state that a process could not write before its end.
 *
 * @param end Null: the process was an earlier server's.
 * @param has_place Whether one more run may wait for a slot.
 */
export async function completeLog(
  run: ManagedRun,
  { idle, end, has_place }: { idle: IdleRun; end: ChildEnd | null; has_place: boolean },
): Promise<void> {
  const { state } = idle.record;
  await logMissingCommands(run, idle);
  if (run.killed_for && isLive(state)) {
    // One write for all of them: after a crash none or all are in the log.
    if (state !== "stopping") idle.appendTransition("stopping");
    return await idle.transition("cancelled");
  }
  if (isLive(state) && end?.fatal) {
    const { code, message } = end.fatal, is_taken = isDeviceTaken(end.fatal);
    // Nothing is wrong with the run when another program took the device after this server had seen it free, or when a
    // client's file is lost, which may be put back. A failed run without a checkpoint could not be resumed then.
    if (state === "starting" && (is_taken || await failedByLostFile(run, end.fatal))) {
      idle.append({ kind: "log", level: "warning", message });
      // A run that waited for its slot keeps its place in the queue. A new run is queued if the queue is not full.
      const waits = is_taken && (run.waited_since !== null || run.was_queued && has_place);
      if (!waits) return await idle.transition("interrupted");
      await run.change({ queued_at: run.waited_since ?? run.record.created_at });
      return await idle.transition("queued");
    }
    return await idle.transition("failed", { reason: failureReason(code), detail: message });
  }
  await idle.recover();
}
