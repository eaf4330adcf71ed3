/** What the end of a command means for an attempt, and how texts tell it. */

import type { ScenarioEnv } from "../../data/scenario.ts";
import { type CommandResult, wasStarted } from "../tools/sandbox.ts";

/** The `metadata.env` of a scenario without one. */
export const NO_ENV: ScenarioEnv = { files: {}, setup: [], verify: null, summary: null, toolset: null };

/** The most characters of a command's output in an error or a trajectory. */
export const QUOTED_CHARS = 400;

/** The greatest number of a signal. */
export const MAX_SIGNAL = 64;

/**
 * Takes a status of 129 to 192 as the death by a signal. Shells and bubblewrap show it so, and only some sandboxes could
 * tell it from an exit.
 */
export function withSignal(result: CommandResult): CommandResult {
  const { ended, code } = result;
  const is_signal = ended === "exited" && code! > 128 && code! <= 128 + MAX_SIGNAL;
  return is_signal ? { ...result, ended: "killed", code: null } : result;
}

/** Whether a verification was killed or never ran, so that it does not judge the attempt. */
export function hasNoVerdict(result: CommandResult): boolean {
  return result.ended !== "exited" || !wasStarted(result);
}

/** How a command ended, with the end of its output. */
export function outcomeText(result: CommandResult): string {
  const output = quotedOutput(result);
  const memory = " (the memory limit was hit: agent.environment.limits.memory_mb)";
  return `${ending(result)}${output ? `: ${output}` : ""}${result.out_of_memory ? memory : ""}`;
}

/** How a command ended, after "it" or "the command". */
export function ending(result: CommandResult): string {
  if (result.ended === "timeout") return "ran past exec_timeout_secs";
  return result.ended === "exited" ? `exited with status ${result.code}` : "was killed";
}

/** The end of what a command wrote to standard error, else to standard output. */
export function quotedOutput({ stderr, stdout }: CommandResult): string {
  return quotedText(stderr.trim() || stdout.trim());
}

/** The end of a text. */
export function quotedText(text: string): string {
  return text.slice(-QUOTED_CHARS).toWellFormed();
}
