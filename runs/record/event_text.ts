/** Texts of a run's events that the terminal and the log share. */

import { reasonsText } from "../../agent/rollout/lost.ts";
import type { EvaluationEvent, Rate, RowCounts, UpdateEvent, WarningEvent } from "./event.ts";

/**
 * "3 of 32 lost (2 max_turns, 1 environment_failed)", "2 of 4 groups equal", "nothing learned"; empty when nothing is
 * wrong.
 */
export function updateTroubles(
  event: Pick<
    UpdateEvent,
    "attempts" | "lost" | "groups" | "degenerate_groups" | "optimizer_steps"
  >,
): string[] {
  const { attempts, lost, groups, degenerate_groups, optimizer_steps } = event;
  const troubles: string[] = [];
  const n = total(lost);
  if (n > 0) troubles.push(`${n} of ${attempts} lost (${reasonsText(lost)})`);
  if (degenerate_groups > 0) troubles.push(`${degenerate_groups} of ${groups.length} groups equal`);
  if (optimizer_steps === 0) troubles.push("nothing learned");
  return troubles;
}

/** "2 of 64 attempts failed (2 environment_failed) and count as not passed"; null when none failed. */
export function failedText(
  { failed, pass_rate }: Pick<EvaluationEvent, "failed" | "pass_rate">,
): string | null {
  const n = total(failed);
  if (n === 0 || pass_rate === null) return null;
  return `${n} of ${pass_rate.attempts} attempts failed (${reasonsText(failed)}) and count as not passed`;
}

/** `45.3 % (95 % interval 40.1 to 50.5; n = 32 scenarios, 64 attempts)`. */
export function formatRate({ rate, low, high, n, attempts }: Rate): string {
  const percent = (share: number) => (share * 100).toFixed(1);
  const tried = attempts === n ? "" : `, ${attempts} attempts`;
  return `${percent(rate)} % (95 % interval ${percent(low)} to ${percent(high)}; n = ${
    counted(n, "scenario")
  }${tried})`;
}

/** "warning no_heldout (evaluation): without …": the code, the key, and the message. */
export function warningText(
  { code, field, message }: Pick<WarningEvent, "code" | "field" | "message">,
): string {
  return `warning ${code}${field === undefined ? "" : ` (${field})`}: ${message}`;
}

/** "n = 200 rows, 12 of them cut at training.ctx" */
export function rowsText({ n, truncated }: RowCounts): string {
  return `n = ${counted(n, "row")}${truncated > 0 ? `, ${truncated} of them cut at training.ctx` : ""}`;
}

const total = (reasons: Readonly<Record<string, number>>) =>
  Object.values(reasons).reduce((sum, n) => sum + n, 0);

/** `1 scenario`, `32 scenarios`. */
export function counted(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}
