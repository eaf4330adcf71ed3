/** What is said when a run is interrupted: what that cost, and the command that goes on. */

import { CHECKPOINT_SECTION } from "../runs/plan/warnings.ts";

/** The `svc train` that was interrupted. */
export interface TrainCommand {
  /** What a shell starts the program by; printed as it is. */
  name: string;
  /** The configuration as it was named. */
  path: string;
  /** `key=value` arguments. */
  overrides: readonly string[];
  /** The checkpoint that a fork began with. */
  fork: string | null;
  /** The lines with which the configuration would have a `[checkpoint]`; null where it has one. */
  missing_checkpoint: string | null;
}

/** A word as a POSIX shell reads it back. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function commandText({ name, path, overrides }: TrainCommand, options: readonly string[]): string {
  return [name, ...["train", path, ...options, ...overrides].map(shellWord)].join(" ");
}

/**
 * What to tell whoever interrupted a run.
 *
 * @param kept Where a checkpoint holds everything that was learned, or all up to it; null: there is none.
 */
export function interruptionText(command: TrainCommand, kept: "all" | "up_to_checkpoint" | null): string {
  const resume = commandText(command, ["--resume"]);
  if (kept === "all") return `go on with: ${resume}`;
  if (kept) return `what came after the newest checkpoint is lost; go on with: ${resume}`;
  // Without a checkpoint of its own a fork would begin at update 0, without its parent's adapter.
  const again = command.fork === null ? resume : commandText(command, ["--fork", command.fork, "--force"]);
  const lost = "what was learned since the start is lost";
  if (command.missing_checkpoint === null) {
    return `${lost}: no checkpoint was written yet; start again with: ${again}`;
  }
  return `${lost}: ${command.path} has no ${CHECKPOINT_SECTION}. With these lines it is kept:\n` +
    `${command.missing_checkpoint}\nstart again with: ${again}`;
}
