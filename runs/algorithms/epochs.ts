/** The order of the training rows. */

import {
  BATCH_SEQUENCES,
  leastMicroBatchTokens,
  type ResolvedConfig,
  type ResolvedTraining,
} from "../../config/derive.ts";
import { Rng, rngKey } from "../../core/random.ts";
import type { RunSchedule } from "./definition.ts";
import { SCORED_TOKENS } from "./rendered_rows.ts";

/**
 * The rows of each optimiser step. Each epoch goes through all rows in its own order, and a step never crosses the end
 * of an epoch. A step takes rows as long as their costs fit in `batch_tokens`, and at least one row.
 *
 * @param costs Tokens of each row.
 */
export function planSteps(
  costs: readonly number[],
  seed: number,
  { epochs, updates = Infinity, ctx, batch_tokens = BATCH_SEQUENCES * ctx }: Pick<
    ResolvedTraining,
    "epochs" | "updates" | "batch_tokens" | "ctx"
  >,
): number[][] {
  const steps: number[][] = [];
  for (let epoch = 0; epoch < epochs && steps.length < updates; epoch++) {
    const order = new Rng(rngKey(seed, "rows", epoch)).shuffle([...costs.keys()]);
    steps.push(...fillRuns(order, (row) => costs[row]!, batch_tokens));
  }
  return steps.slice(0, updates);
}

/** The steps of a run, and their mean number of tokens. @param tokens Tokens of each row. */
export function scheduleOf(steps: readonly number[][], tokens: readonly number[]): RunSchedule {
  const total = steps.flat().reduce((sum, row) => sum + tokens[row]!, 0);
  return { updates: steps.length, tokens_per_update: Math.round(total / steps.length) };
}

/**
 * The most tokens of a step, or of a request that scores held-out rows. A single row may be longer than the limit of
 * either.
 */
export function mostTargets(config: ResolvedConfig): number {
  const { training, evaluation, run } = config;
  const { batch_tokens = BATCH_SEQUENCES * training.ctx } = training;
  const row = leastMicroBatchTokens(run.algorithm, training.ctx);
  return Math.max(row, batch_tokens, evaluation ? SCORED_TOKENS : 0);
}

/** Splits a list into consecutive parts whose costs fit, with at least one item each. */
export function fillRuns<T>(items: readonly T[], cost: (item: T) => number, capacity: number): T[][] {
  const runs: T[][] = [];
  let used = Infinity;
  for (const item of items) {
    if (used + cost(item) > capacity) {
      runs.push([]);
      used = 0;
    }
    runs.at(-1)!.push(item);
    used += cost(item);
  }
  return runs;
}
