/** The commands of a client that a run accepts, whether or not it has a process. */

import type { CommandEvent } from "../record/event.ts";
import { acceptRate, commandEvent } from "./accepted_commands.ts";
import type { ManagedRun } from "./managed_run.ts";
import { kill } from "./run_ends.ts";
import type { RunLifecycle } from "./run_lifecycle.ts";

/** A command of a client. */
export type FleetCommand =
  | { command: "pause" | "resume" | "checkpoint" }
  | { command: "cancel"; at: "boundary" | "now"; checkpoint: boolean }
  | { command: "set_lr"; lr: number };

/** When an accepted command takes effect: at once, or between two updates. */
export type TakesEffect = CommandEvent["takes_effect"];

/** Cancels a run. A run without a process, or whose process has not trained yet, ends at once. */
export async function cancelRun(
  run: ManagedRun,
  { at, checkpoint }: Extract<FleetCommand, { command: "cancel" }>,
  lifecycle: RunLifecycle,
): Promise<TakesEffect> {
  const { state } = run.record, command = { at, checkpoint };
  if (!run.child) {
    await lifecycle.changeIdle(run, (idle) => {
      idle.append(commandEvent("cancel", "now", command));
      return idle.transition("cancelled");
    });
    return "now";
  }
  // A starting process has no update to finish.
  if (state === "starting") return await kill(run, command);
  run.is_cancelling = true;
  return await run.child.command("cancel", command);
}

/** Sets the learning rate of a run. Processes that start later get it too, before their first update. */
export async function setLearningRate(
  run: ManagedRun,
  lr: number,
  lifecycle: RunLifecycle,
): Promise<TakesEffect> {
  const { child, record: { state } } = run;
  // The state of a process that has begun is known a moment later, and its run may end in that moment.
  if (child && state === "starting" && !child.has_begun) await acceptRate(run, lr);
  else {
    if (child) await child.command("set_lr", { lr });
    else await logIdle(run, commandEvent("set_lr", "boundary", { lr }), lifecycle);
    await run.change({ learning_rate: lr });
  }
  return "boundary";
}

/** Writes a command into the log of a run without a process. */
export function logIdle(run: ManagedRun, command: CommandEvent, lifecycle: RunLifecycle): Promise<void> {
  return lifecycle.changeIdle(run, (idle) => {
    idle.append(command);
    return Promise.resolve();
  });
}
