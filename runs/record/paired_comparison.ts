/** Compares two evaluations of the same examples: their difference, and whether chance explains it. */

import { assert } from "../../core/errors.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { type Interval, quantile, studentT975 } from "./statistics.ts";

/**
 * An example's contribution to a value Σ sum / Σ weight: for a row its loss and its tokens, for a scenario its pass
 * rate and 1.
 */
export interface Example {
  sum: number;
  weight: number;
}

/** An example with weight 1. */
export function evenExample(value: number): Example {
  return { sum: value, weight: 1 };
}

/** Σ sum / Σ weight. */
export function ratio(examples: readonly Example[]): number {
  let sum = 0, weight = 0;
  for (const example of examples) {
    sum += example.sum;
    weight += example.weight;
  }
  return sum / weight;
}

/** The difference of two evaluations over their common examples. */
export interface PairedDifference {
  /** ratio(after) − ratio(before) */
  difference: number;
  /** The ends of the 95 % interval; both null when the examples do not determine it. */
  low: number | null;
  high: number | null;
  /** The number of pairs. */
  n: number;
}

/** Resamples of a bootstrap: the percentile's own error is then much smaller than the interval. */
export const BOOTSTRAP_RESAMPLES = 10_000;

/**
 * The fewest pairs for a 95 % interval. Resamples lie between the smallest and the largest difference, and all n
 * differences lie on one side of their true median with probability 2^(1−n): 6 % for five, 3 % for six.
 */
export const MIN_PAIRS = 6;

/** Differences closer than this are equal: rates of a few attempts differ by much more. */
const EQUAL_DIFFERENCES = 1e-9;

/**
 * ratio(after) − ratio(before), with its 95 % bootstrap interval over examples.
 *
 * The pairs are resampled with replacement, and both ratios are computed for each resample. The interval is the
 * expanded percentile interval: its tails are Φ(−√(n/(n − 1)) · t) instead of 2.5 %, with t the 97.5 % point of
 * Student's t with n − 1 degrees of freedom, because percentiles of n examples are too narrow by this much.
 *
 * If all n differences are one d, resamples have no spread. If no difference can exceed `bound` B, at most a share u =
 * 1 − 0.025^(1/n) of all examples has another difference, and the interval is d − u (B + d) to d + u (B − d).
 *
 * There is no interval for fewer than {@link MIN_PAIRS} pairs, nor when all differences are equal and unbounded.
 *
 * @param bound 1 for rates, which all have the same weight; absent: differences are unbounded.
 * @source percentiles and pairs: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 8 and 13;
 * expanded percentiles: Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69,
 * 2015; u: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial",
 * Biometrika 26, 1934, with no success in n trials.
 */
export function pairedBootstrap(
  before: readonly Example[],
  after: readonly Example[],
  options: BootstrapOptions,
): PairedDifference {
  const steps = bootstrapSteps(before, after, options);
  while (true) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

export interface BootstrapOptions {
  seed: number;
  bound?: number;
}

/** {@link pairedBootstrap} with pauses, at which the caller may let other work run: every few milliseconds one. */
export function* bootstrapSteps(
  before: readonly Example[],
  after: readonly Example[],
  { seed, bound }: BootstrapOptions,
): Generator<void, PairedDifference> {
  const n = before.length;
  assert(n > 0 && after.length === n, `${n} examples before, ${after.length} after`);
  const difference = ratio(after) - ratio(before), point = { difference, low: null, high: null, n };
  if (n < MIN_PAIRS) return point;
  const resampled = yield* resampledDifferences(before, after, seed);
  if (resampled.at(-1)! - resampled[0]! >= EQUAL_DIFFERENCES) {
    return { ...point, ...expandedPercentiles(resampled, n) };
  }
  if (bound === undefined) return point;
  const u = 1 - 0.025 ** (1 / n);
  return {
    ...point,
    low: difference - u * (bound + difference),
    high: difference + u * (bound - difference),
  };
}

/** Pairs that are drawn between two pauses. */
const STEP_DRAWS = 50_000;

/** Sorted. */
function* resampledDifferences(
  before: readonly Example[],
  after: readonly Example[],
  seed: number,
): Generator<void, Float64Array> {
  const rng = new Rng(rngKey(seed, "bootstrap"));
  const differences = new Float64Array(BOOTSTRAP_RESAMPLES), n = before.length;
  let draws = 0;
  for (let k = 0; k < differences.length; k++) {
    const sums = { before: 0, after: 0 }, weights = { before: 0, after: 0 };
    for (let i = 0; i < n; i++) {
      const drawn = rng.below(n), old = before[drawn]!, now = after[drawn]!;
      sums.before += old.sum;
      weights.before += old.weight;
      sums.after += now.sum;
      weights.after += now.weight;
    }
    differences[k] = sums.after / weights.after - sums.before / weights.before;
    draws += n;
    if (draws < STEP_DRAWS) continue;
    draws = 0;
    yield;
  }
  return differences.sort();
}

function expandedPercentiles(resampled: Float64Array, n: number): Interval {
  const tail = normalTail(Math.sqrt(n / (n - 1)) * studentT975(n - 1));
  return { low: quantile(resampled, tail), high: quantile(resampled, 1 - tail) };
}

/**
 * The chance that a standard normal exceeds x, for x of 0 or more, within 1e-7.
 *
 * @source Abramowitz and Stegun, 26.2.17.
 */
export function normalTail(x: number): number {
  const t = 1 / (1 + 0.2316419 * x);
  const factors = [1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530];
  return Math.exp(-x * x / 2) / Math.sqrt(2 * Math.PI) * factors.reduce((sum, b) => (sum + b) * t, 0);
}

/** Up to this many pairs all 2^n exchanges are computed. */
const EXACT_PAIRS = 13;

/** The number of random exchanges for more pairs. */
const EXCHANGES = 10_000;

/**
 * The paired permutation test: the share of exchanges in which ratio(higher) − ratio(lower) is at least its observed
 * value, when each pair swaps its sides at random, as if both evaluations were of the same policy. It is exact: under
 * that hypothesis the p-value is at most α with probability at most α, for few pairs too. It is never below 2^−n.
 *
 * @param level The α that the result is compared with: random exchanges are enough to reach it.
 * @returns The one-sided p-value: over all exchanges for up to 13 pairs, else (1 + k)/(1 + m) with k of m random ones.
 * @source Fisher, "The Design of Experiments", 1935, section 21; random exchanges: Noreen, "Computer-Intensive Methods
 * for Testing Hypotheses", 1989; 1 + k: Phipson and Smyth, "Permutation p-values should never be zero", SAGMB 9, 2010.
 */
export function exchangeTest(
  lower: readonly Example[],
  higher: readonly Example[],
  { seed, level }: { seed: number; level: number },
): number {
  const n = lower.length;
  assert(n > 0 && higher.length === n, `${n} examples of one, ${higher.length} of the other`);
  const exact = n <= EXACT_PAIRS;
  const count = exact ? 2 ** n : Math.max(EXCHANGES, Math.ceil(10 / level));
  const observed = ratio(higher) - ratio(lower);
  const rng = new Rng(rngKey(seed, "exchanges"));
  let reached = 0;
  for (let k = 0; k < count; k++) {
    let bits = k;
    const exchanged = lower.map((_, i) => {
      if (!exact && i % 32 === 0) bits = rng.word();
      return (bits >>> (i % 32) & 1) === 1;
    });
    const side = (own: readonly Example[], other: readonly Example[]) =>
      ratio(exchanged.map((is, i) => is ? other[i]! : own[i]!));
    if (side(higher, lower) - side(lower, higher) > observed - EQUAL_DIFFERENCES) reached++;
  }
  return exact ? reached / count : (1 + reached) / (1 + count);
}
