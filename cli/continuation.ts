/** The commands that a run of `svc train` prints at its end: to continue it, and to look at it. */

import { relative } from "node:path";
import { CHECKPOINT_SECTION } from "../runs/plan/warnings.ts";

/** The interrupted `svc train`. */
export interface TrainCommand {
  /** The shell command of the program; printed as it is. */
  name: string;
  /** The path of the configuration as given. */
  path: string;
  /** `key=value` arguments. */
  overrides: readonly string[];
  /** The checkpoint of a fork. */
  fork: string | null;
  /** The folder of the run that it replays. */
  replay: string | null;
  /** The lines that would add `[checkpoint]` to the configuration; null when it has one. */
  missing_checkpoint: string | null;
}

/** Quotes a word for a POSIX shell. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

function commandText(
  { name, path, overrides, replay }: TrainCommand,
  options: readonly string[],
): string {
  const replayed = replay === null ? [] : ["--replay", replay];
  return [name, ...["train", path, ...options, ...replayed, ...overrides].map(shellWord)].join(" ");
}

/**
 * The message after an interruption.
 *
 * @param kept The checkpoint with everything that was learned, or with all up to it; null without a checkpoint.
 */
export function interruptionText(command: TrainCommand, kept: "all" | "up_to_checkpoint" | null): string {
  const resume = commandText(command, ["--resume"]);
  if (kept === "all") return `continue with: ${resume}`;
  if (kept) return `the updates after the newest checkpoint are lost; continue with: ${resume}`;
  // Without a checkpoint of its own a fork would restart at update 0, without its parent's adapter.
  const again = command.fork === null ? resume : commandText(command, ["--fork", command.fork, "--force"]);
  const lost = "what was learned since the start is lost";
  if (command.missing_checkpoint === null) {
    return `${lost}: no checkpoint was written yet; start again with: ${again}`;
  }
  return `${lost}: ${command.path} has no ${CHECKPOINT_SECTION}. With these lines it is kept:\n` +
    `${command.missing_checkpoint}\nstart again with: ${again}`;
}

/** The message about exported trajectories. @param directory Absolute; below the working directory it is shown from there. */
export function viewText({ name }: Pick<TrainCommand, "name">, directory: string): string {
  const from_here = relative(Deno.cwd(), directory);
  const shown = from_here.startsWith("..") ? directory : from_here;
  return `see it in the browser: ${[name, "server", "view", shellWord(shown), "--open"].join(" ")}`;
}
