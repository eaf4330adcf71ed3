/** What the end of a command means for an attempt, and how texts tell it. */

import type { ScenarioEnv } from "../../data/scenario.ts";
import type { CommandResult } from "../tools/sandbox.ts";

/** The `metadata.env` of a scenario without one. */
export const NO_ENV: ScenarioEnv = { files: {}, setup: [], verify: null, summary: null, toolset: null };

/** The most characters of a command's output in an error or a trajectory. */
export const QUOTED_CHARS = 400;

/** A shell's exit statuses for a program that cannot be executed or found. */
const NOT_EXECUTED = [126, 127];

/** Whether a verification was killed or never ran, so that it does not judge the attempt. */
export function hasNoVerdict({ ended, code }: CommandResult): boolean {
  return ended !== "exited" || NOT_EXECUTED.includes(code!);
}

/** How a command ended, with the end of its output. */
export function outcomeText(result: CommandResult): string {
  const output = quotedOutput(result);
  return `${ending(result)}${output ? `: ${output}` : ""}`;
}

function ending(result: CommandResult): string {
  if (result.ended === "timeout") return "ran past exec_timeout_secs";
  return result.ended === "exited" ? `exited with status ${result.code}` : "was killed";
}

/** The end of what a command wrote to standard error, else to standard output. */
export function quotedOutput({ stderr, stdout }: CommandResult): string {
  return (stderr.trim() || stdout.trim()).slice(-QUOTED_CHARS).toWellFormed();
}
