/** What went wrong in an update or an evaluation, in the words of its line. */

import { reasonsText } from "../agent/rollout/lost.ts";
import type { EvaluationEvent, RowCounts, UpdateEvent } from "./event.ts";

/** "3 of 32 lost (2 max_turns, 1 environment_failed)", "2 of 4 groups equal", "nothing learned"; nothing to tell: none. */
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

/** "2 of 64 attempts failed (2 environment_failed) and count as not passed"; null where none did. */
export function failedText(
  { failed, pass_rate }: Pick<EvaluationEvent, "failed" | "pass_rate">,
): string | null {
  const n = total(failed);
  if (n === 0 || pass_rate === null) return null;
  return `${n} of ${pass_rate.attempts} attempts failed (${reasonsText(failed)}) and count as not passed`;
}

/** "n = 200 rows, 12 of them cut at training.ctx" */
export function rowsText({ n, truncated }: RowCounts): string {
  return `n = ${n} rows${truncated > 0 ? `, ${truncated} of them cut at training.ctx` : ""}`;
}

const total = (reasons: Readonly<Record<string, number>>) =>
  Object.values(reasons).reduce((sum, n) => sum + n, 0);
