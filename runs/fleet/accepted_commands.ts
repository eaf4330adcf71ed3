/** Commands that a server accepts itself, without an answer of the run's process: their events in the log, each once. */

import type { IdleRun } from "../directory/idle_run.ts";
import type { CommandEvent } from "../record/event.ts";
import { readEvents } from "../record/event_log.ts";
import { isLive } from "../record/run.ts";
import type { KeptRun } from "./kept_run.ts";

/** The event of an accepted command. */
export function commandEvent(
  command: CommandEvent["command"],
  takes_effect: CommandEvent["takes_effect"],
  args: object = {},
): CommandEvent {
  return { kind: "command", command, arguments: { ...args }, takes_effect };
}

/** Accepts a learning rate for a process that starts and will log the command when it reads it. */
export async function acceptRate(run: KeptRun, lr: number): Promise<void> {
  await run.change(({ unlogged }) => {
    const { after_seq, rates } = unlogged ?? { after_seq: run.last_seq, rates: [] };
    return { learning_rate: lr, unlogged: { after_seq, rates: [...rates, lr] } };
  });
  // When the process ends first, the event is written when its run is settled.
  run.child?.command("set_lr", { lr }).catch(() => {});
}

/** Writes what a process that has ended did not log: rates, then the cancel for which it was killed. */
export async function logUnlogged(run: KeptRun, idle: IdleRun): Promise<void> {
  const { service: { unlogged }, killed_for } = run;
  if (!isLive(idle.record.state)) return;
  if (unlogged) {
    let logged = 0;
    for await (const event of readEvents(run.eventsPath, { since: unlogged.after_seq })) {
      if (event.kind === "command" && event.command === "set_lr") logged++;
    }
    for (const lr of unlogged.rates.slice(logged)) idle.append(commandEvent("set_lr", "boundary", { lr }));
  }
  if (killed_for) idle.append(commandEvent("cancel", "now", killed_for));
}

/** The log has everything now. */
export async function forgetUnlogged(run: KeptRun): Promise<void> {
  run.killed_for = null;
  const { unlogged, killed_for } = run.service;
  if (unlogged !== null || killed_for !== null) await run.change({ unlogged: null, killed_for: null });
}
