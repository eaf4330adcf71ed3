/** Commands that a server accepts without an answer of the run's process. Each is written to the log exactly once. */

import type { IdleRun } from "../directory/idle_run.ts";
import type { CommandEvent } from "../record/event.ts";
import { readEvents } from "../record/event_log.ts";
import { isLive } from "../record/run.ts";
import type { ManagedRun } from "./managed_run.ts";

/** The event of an accepted command. */
export function commandEvent(
  command: CommandEvent["command"],
  takes_effect: CommandEvent["takes_effect"],
  args: object = {},
): CommandEvent {
  return { kind: "command", command, arguments: { ...args }, takes_effect };
}

/**
 * Accepts a learning rate while the run's process is starting. The process reads and logs the command once it is ready.
 * Until then `unlogged` in the server's record has the rate.
 *
 * @throws {ServiceError} The refusal of a process that has begun meanwhile.
 */
export async function acceptRate(run: ManagedRun, lr: number): Promise<void> {
  await run.change(({ unlogged }) => {
    const { after_seq, rates } = unlogged ?? { after_seq: run.last_seq, rates: [] };
    return { learning_rate: lr, unlogged: { after_seq, rates: [...rates, lr] } };
  });
  const { child } = run, answered = child?.command("set_lr", { lr });
  // When a process that has not begun ends before it reads the command, logMissingCommands writes the event.
  if (child?.has_begun) await answered;
  else answered?.catch(() => {});
}

/**
 * Writes to the log of an ended process the accepted commands that it did not log: learning rates first, then the cancel
 * for which it was killed. Does nothing when the run's last state shows that the process ended in order.
 */
export async function logMissingCommands(run: ManagedRun, idle: IdleRun): Promise<void> {
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

/** Clears `unlogged` and `killed_for` in the server's record, once the log has those commands. */
export async function clearMissingCommands(run: ManagedRun): Promise<void> {
  run.killed_for = null;
  const { unlogged, killed_for } = run.service;
  if (unlogged !== null || killed_for !== null) await run.change({ unlogged: null, killed_for: null });
}
