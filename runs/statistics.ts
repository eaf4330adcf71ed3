/** Rates with their uncertainty, and comparisons of two runs on the same scenarios. */

import { assert } from "../core/errors.ts";
import { RandomStream, streamKey } from "../core/random.ts";

/** The 97.5 % point of the standard normal: every interval here is a 95 % interval. */
const Z95 = 1.959963984540054;

/** Resamples of a bootstrap: the percentile's own error is then far below the interval's width. */
export const BOOTSTRAP_RESAMPLES = 10_000;

export interface Interval {
  low: number;
  high: number;
}

/**
 * Wilson's score interval of a binomial rate, 95 %.
 *
 * @param passes 0..attempts.
 * @param attempts 1 or more.
 * @source Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
 */
export function wilsonInterval(passes: number, attempts: number): Interval {
  assert(attempts > 0 && passes >= 0 && passes <= attempts, `a rate of ${passes} in ${attempts}`);
  const rate = passes / attempts, z2 = Z95 * Z95;
  const center = rate + z2 / (2 * attempts);
  const half = Z95 * Math.sqrt((rate * (1 - rate) + z2 / (4 * attempts)) / attempts);
  const scale = 1 + z2 / attempts;
  return {
    low: passes === 0 ? 0 : (center - half) / scale,
    high: passes === attempts ? 1 : (center + half) / scale,
  };
}

/** The q-quantile of sorted values, linear between neighbours. */
export function quantile(sorted: ArrayLike<number>, q: number): number {
  assert(sorted.length > 0, "a quantile of nothing");
  const at = q * (sorted.length - 1), below = Math.floor(at), above = Math.ceil(at);
  return sorted[below]! + (sorted[above]! - sorted[below]!) * (at - below);
}

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i]!;
  return sum / values.length;
}

/**
 * Percentile bootstrap of a mean: the values, one a scenario, are drawn again with replacement.
 *
 * @param alpha The chance that the interval misses the mean; left out: 0.05, a 95 % interval.
 * @source Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13.
 */
export function bootstrapMean(values: readonly number[], seed: number, alpha = 0.05): Interval {
  assert(values.length > 0, "a bootstrap of nothing");
  const stream = new RandomStream(streamKey(seed, "bootstrap"));
  const means = new Float64Array(BOOTSTRAP_RESAMPLES);
  for (let i = 0; i < means.length; i++) {
    let sum = 0;
    for (let j = 0; j < values.length; j++) sum += values[stream.below(values.length)]!;
    means[i] = sum / values.length;
  }
  means.sort();
  return { low: quantile(means, alpha / 2), high: quantile(means, 1 - alpha / 2) };
}

export interface PairedDifference extends Interval {
  /** mean(after) − mean(before) */
  difference: number;
  /** Pairs. */
  n: number;
}

/** The mean of the differences after − before, scenario by scenario, with its bootstrap interval over scenarios. */
export function pairedBootstrap(
  before: readonly number[],
  after: readonly number[],
  { seed, alpha }: { seed: number; alpha?: number },
): PairedDifference {
  assert(before.length === after.length, `${before.length} scenarios before, ${after.length} after`);
  const differences = before.map((value, i) => after[i]! - value);
  return { difference: mean(differences), ...bootstrapMean(differences, seed, alpha), n: differences.length };
}

/**
 * McNemar's exact test: the two-sided probability, under equal chances, of discordant pairs at least as uneven.
 *
 * @param gained Scenarios that only the second run passes.
 * @param lost Scenarios that only the first run passes.
 * @source McNemar, Psychometrika 12, 1947; exact binomial form.
 */
export function mcnemar(gained: number, lost: number): { p_value: number } {
  const discordant = gained + lost;
  let tail = 0, log_choose = 0;
  for (let k = 0; k <= Math.min(gained, lost); k++) {
    if (k > 0) log_choose += Math.log((discordant - k + 1) / k);
    tail += Math.exp(log_choose - discordant * Math.LN2);
  }
  return { p_value: Math.min(1, 2 * tail) };
}

/**
 * The unbiased estimate of the chance that one of k attempts passes: 1 − C(n−c, k) / C(n, k).
 *
 * @param attempts n, at least k.
 * @param passes c.
 * @source Chen et al., "Evaluating Large Language Models Trained on Code", 2021, section 2.1.
 */
export function passAtK(attempts: number, passes: number, k: number): number {
  assert(k >= 1 && k <= attempts && passes <= attempts, `pass@${k} of ${passes} in ${attempts}`);
  let none = 1;
  for (let i = 0; i < k; i++) none *= Math.max(0, attempts - passes - i) / (attempts - i);
  return 1 - none;
}
