/** Stored evaluations and their comparison. */

import type { Rate } from "./event.ts";
import { type Objective, OBJECTIVES } from "./objective.ts";
import { type Example, exchangeTest, pairedBootstrap, type PairedDifference } from "./paired_comparison.ts";

/** An evaluation as checkpoints store it. */
export interface EvaluationRecord {
  /** The update before it. */
  update: number;
  metric: Objective;
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
  metric: Objective,
  { pass_rate, loss, by_example }: Measured,
): EvaluationRecord {
  const value = OBJECTIVES[metric].valueOf({ pass_rate, loss })!;
  return { update, metric, value, pass_rate, by_example };
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
  return pairedBootstrap(a, b, { seed, ...(OBJECTIVES[later.metric].is_rate && { bound: 1 }) });
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
  const [lower, higher] = OBJECTIVES[latest.metric].higher_is_better ? [b, a] : [a, b];
  return exchangeTest(lower, higher, { seed, level }) <= level;
}

/** The common examples, in one order. */
function commonExamples(a: EvaluationRecord, b: EvaluationRecord): { a: Example[]; b: Example[] } {
  const ids = Object.keys(a.by_example).filter((id) => Object.hasOwn(b.by_example, id));
  const of = ({ by_example }: EvaluationRecord) => ids.map((id) => by_example[id]!);
  return { a: of(a), b: of(b) };
}
