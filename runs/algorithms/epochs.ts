/** The order of the training rows. */

import type { ResolvedConfig, ResolvedTraining } from "../../config/check/derive.ts";
import { BATCH_SEQUENCES } from "../../config/sections/defaults.ts";
import { assert } from "../../core/errors.ts";
import { Rng, rngKey } from "../../core/random.ts";
import type { RunSchedule } from "./definition.ts";
import { SCORED_TOKENS } from "./rendered_rows.ts";

export interface EpochStepsOptions {
  /** Tokens of each row. */
  costs: readonly number[];
  seed: number;
  training: Pick<ResolvedTraining, "ctx" | "epochs" | "updates" | "batch_tokens">;
}

/**
 * The rows of each optimiser step. Each epoch goes through all rows in its own order, and a step never crosses the end
 * of an epoch. A step takes rows as long as their costs fit in `batch_tokens`, and at least one row. The steps of an
 * epoch are made when they are needed.
 */
export class EpochSteps {
  /** The number of steps; null when neither `epochs` nor `updates` limits them. */
  readonly count: number | null;
  #epoch = -1;
  /** The current epoch's steps, by the number of its rows before each. */
  #steps = new Map<number, number[]>();

  constructor(readonly options: EpochStepsOptions) {
    this.count = this.#count();
  }

  /**
   * The rows of the step after the first `examples_seen` rows of the run.
   *
   * @param examples_seen The number of rows of all earlier steps.
   */
  after(examples_seen: number): number[] {
    const { costs } = this.options, epoch = Math.floor(examples_seen / costs.length);
    if (epoch !== this.#epoch) {
      let seen = 0;
      this.#steps = new Map();
      for (const step of this.#stepsOf(epoch)) {
        this.#steps.set(seen, step);
        seen += step.length;
      }
      this.#epoch = epoch;
    }
    const step = this.#steps.get(examples_seen % costs.length);
    assert(step, `a step begins after ${examples_seen} rows`);
    return step;
  }

  /** The length of the run; the mean is that of the first epoch. @param tokens Tokens of each row. */
  schedule(tokens: readonly number[]): RunSchedule {
    const steps = this.#stepsOf(0).slice(0, this.count ?? Infinity);
    const total = steps.flat().reduce((sum, row) => sum + tokens[row]!, 0);
    return { updates: this.count, tokens_per_update: Math.round(total / steps.length) };
  }

  #stepsOf(epoch: number): number[][] {
    const { costs, seed, training: { ctx, batch_tokens = BATCH_SEQUENCES * ctx } } = this.options;
    const order = new Rng(rngKey(seed, "rows", epoch)).shuffle([...costs.keys()]);
    return consecutiveBatches(order, (row) => costs[row]!, batch_tokens);
  }

  #count(): number | null {
    const { epochs, updates } = this.options.training;
    if (epochs === undefined) return updates ?? null;
    let count = 0;
    for (let epoch = 0; epoch < epochs; epoch++) {
      count += this.#stepsOf(epoch).length;
      if (updates !== undefined && count >= updates) return updates;
    }
    return count;
  }
}

/**
 * The most tokens of a step, or of a request that scores held-out rows. A single row may be longer than the limit of
 * either.
 *
 * @param longest_row The most tokens of a row.
 */
export function mostTargets({ training, evaluation }: ResolvedConfig, longest_row: number): number {
  const { batch_tokens = BATCH_SEQUENCES * training.ctx } = training;
  return Math.max(longest_row, batch_tokens, evaluation ? SCORED_TOKENS : 0);
}

/** Splits a list into consecutive parts whose costs fit, with at least one item each. */
export function consecutiveBatches<T>(
  items: readonly T[],
  cost: (item: T) => number,
  capacity: number,
): T[][] {
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
