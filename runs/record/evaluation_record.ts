/** Stored evaluations and their comparison. */

import type { Rate } from "./event.ts";
import { type Example, exchangeTest, pairedBootstrap, type PairedDifference } from "./paired_comparison.ts";

/** An evaluation as checkpoints store it. */
export interface EvaluationRecord {
  /** The update before it. */
  update: number;
  metric: "eval/pass_rate" | "eval/loss";
  /** Σ sum / Σ weight of the examples. */
  value: number;
  pass_rate: Rate | null;
  /**
   * By scenario: the share of its attempts that passed, with weight 1. By row, named by its line: the sum of its
   * tokens' losses, with the number of these tokens.
   */
  by_example: Record<string, Example>;
}

/** The results of an evaluation. */
type Measured = Pick<EvaluationRecord, "pass_rate" | "by_example"> & { loss: number | null };

/** The accepted rate of false alarms, one-sided. */
const SIGNIFICANCE = 0.025;

export function evaluationRecord(
  update: number,
  metric: EvaluationRecord["metric"],
  { pass_rate, loss, by_example }: Measured,
): EvaluationRecord {
  return { update, metric, value: metric === "eval/loss" ? loss! : pass_rate!.rate, pass_rate, by_example };
}

/**
 * The difference later − earlier over the examples of both evaluations, with its paired bootstrap interval. With the
 * same examples it is later.value − earlier.value. Null without common examples.
 *
 * @param seed The seed of the resampling.
 */
export function evaluationDifference(
  earlier: EvaluationRecord,
  later: EvaluationRecord,
  { seed }: { seed: number },
): PairedDifference | null {
  const { a, b } = commonExamples(earlier, later);
  if (a.length === 0) return null;
  return pairedBootstrap(a, b, { seed, ...(later.metric === "eval/pass_rate" && { bound: 1 }) });
}

/**
 * Whether an evaluation is significantly worse than the best one: the p-value of {@link exchangeTest} is at most 0.025
 * divided by the number of evaluations, except this one, from which the best was chosen (Bonferroni).
 */
export function isWorseBeyondChance(
  best: EvaluationRecord,
  latest: EvaluationRecord,
  { seed, evaluations }: { seed: number; evaluations: number },
): boolean {
  if (best.update === latest.update) return false;
  const { a, b } = commonExamples(best, latest);
  if (a.length === 0) return false;
  const level = SIGNIFICANCE / Math.max(1, evaluations - 1);
  const [lower, higher] = latest.metric === "eval/loss" ? [a, b] : [b, a];
  return exchangeTest(lower, higher, { seed, level }) <= level;
}

/** The common examples, in one order. */
function commonExamples(a: EvaluationRecord, b: EvaluationRecord): { a: Example[]; b: Example[] } {
  const ids = Object.keys(a.by_example).filter((id) => Object.hasOwn(b.by_example, id));
  const of = ({ by_example }: EvaluationRecord) => ids.map((id) => by_example[id]!);
  return { a: of(a), b: of(b) };
}
