/** What a run remembers of its evaluations, and what they say about each other. */

import type { Rate } from "./event.ts";
import { pairedBootstrap, type PairedDifference } from "./statistics.ts";

/** One evaluation, as a checkpoint holds it. */
export interface EvaluationRecord {
  /** The update that it followed. */
  update: number;
  metric: "eval/pass_rate" | "eval/loss";
  value: number;
  pass_rate: Rate | null;
  /** By scenario the share of its attempts that passed; by row, named by its line, its mean loss. */
  by_example: Record<string, number>;
}

/** What an evaluation measured. */
type Measured = Pick<EvaluationRecord, "pass_rate" | "by_example"> & { loss: number | null };

/** The share of chance findings that is put up with. */
const SIGNIFICANCE = 0.05;

export function evaluationRecord(
  update: number,
  metric: EvaluationRecord["metric"],
  { pass_rate, loss, by_example }: Measured,
): EvaluationRecord {
  return { update, metric, value: metric === "eval/loss" ? loss! : pass_rate!.rate, pass_rate, by_example };
}

/**
 * How the mean over the examples of both evaluations differs, later − earlier, with the paired bootstrap interval.
 * Null when they have no example in common.
 *
 * @param seed Of the resampling.
 * @param comparisons Among how many the pair was chosen: the interval covers all of them with 95 % (Bonferroni).
 */
export function evaluationDifference(
  earlier: EvaluationRecord,
  later: EvaluationRecord,
  { seed, comparisons = 1 }: { seed: number; comparisons?: number },
): PairedDifference | null {
  const common = Object.keys(earlier.by_example).filter((id) => id in later.by_example);
  if (common.length === 0) return null;
  const values = ({ by_example }: EvaluationRecord) => common.map((id) => by_example[id]!);
  return pairedBootstrap(values(earlier), values(later), {
    seed,
    alpha: SIGNIFICANCE / comparisons,
    ...(later.metric === "eval/pass_rate" && { bound: 1 }),
  });
}

/** Whether an evaluation is worse than the best one by more than choosing the best among `evaluations` explains. */
export function isWorseBeyondChance(
  best: EvaluationRecord,
  latest: EvaluationRecord,
  { seed, evaluations }: { seed: number; evaluations: number },
): boolean {
  if (best.update === latest.update) return false;
  const comparisons = Math.max(1, evaluations - 1);
  const difference = evaluationDifference(best, latest, { seed, comparisons });
  if (!difference) return false;
  return latest.metric === "eval/loss" ? difference.low > 0 : difference.high < 0;
}
