/** The cold-start check: a model that never makes a valid tool call cannot learn from rewards. */

import type { Group } from "../../../agent/trajectory/group.ts";
import type { RunWarning } from "../../record/warning.ts";

/**
 * The warning when no attempt of the groups made a valid tool call, though each had tools and some had a turn. The
 * groups of the first update tell it exactly, and no attempt is made for the check alone.
 */
export function coldStartWarnings(groups: readonly Group[]): RunWarning[] {
  const turns = groups.flatMap(({ members }) => members.flatMap((member) => member.turns));
  const had_tools = groups.every(({ tools }) => tools.length > 0);
  const was_valid = turns.some(({ calls }) => calls.some(({ malformed }) => !malformed));
  if (!had_tools || turns.length === 0 || was_valid) return [];
  const attempts = groups.reduce((sum, { members }) => sum + members.length, 0);
  const malformed = turns.reduce((sum, { calls }) => sum + calls.length, 0);
  const wrote = malformed === 0 ? "no tool call" : `${malformed} tool calls, all malformed`;
  return [{
    code: "no_valid_calls",
    message:
      `the ${attempts} attempts of the first update made no valid tool call (${wrote}), and without one ` +
      "the members of a group earn the same. Warm the model up with sft on collected traces: " +
      "`svc collect <config> --out traces.jsonl --model <a model that calls tools>` (or --api), `svc train` with " +
      'algorithm = "sft" on them, then its adapter as [lora] init_adapter here (docs/guides/warm_start.md)',
  }];
}
