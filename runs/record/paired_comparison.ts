/** Two evaluations of the same examples: by how much they differ, and whether chance explains it. */

import { assert } from "../../core/errors.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { type Interval, quantile, studentT975 } from "./statistics.ts";

/** What one example adds to a value Σ sum / Σ weight: a row its loss and its tokens, a scenario its pass rate and 1. */
export interface Example {
  sum: number;
  weight: number;
}

/** An example that weighs as much as every other. */
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

/** The difference of two evaluations over the examples that both have. */
export interface PairedDifference {
  /** ratio(after) − ratio(before) */
  difference: number;
  /** Ends of the 95 % interval; null, both, where the examples do not tell how sure the difference is. */
  low: number | null;
  high: number | null;
  /** Pairs. */
  n: number;
}

/** Resamples of a bootstrap: the percentile's own error is then far below the interval's width. */
export const BOOTSTRAP_RESAMPLES = 10_000;

/**
 * Pairs that a 95 % interval needs. Resamples lie between the smallest and the largest difference, and all n differences
 * lie on one side of their true middle with probability 2^(1−n): 6 % for five, 3 % for six.
 */
export const MIN_PAIRS = 6;

/** Differences closer than this are equal: rates of a few attempts differ by far more. */
const EQUAL_DIFFERENCES = 1e-9;

/**
 * ratio(after) − ratio(before), with its 95 % bootstrap interval over examples.
 *
 * The pairs are drawn again with replacement, and both ratios are taken of each resample. The interval is the expanded
 * percentile interval: its tails are Φ(−√(n/(n − 1)) · t), with t the 97.5 % point of Student's t with n − 1 degrees of
 * freedom, instead of 2.5 %, because percentiles of n examples are too narrow by as much.
 *
 * Where all n differences are one d, resamples have no spread. If no difference can exceed `bound` B, at most a share
 * u = 1 − 0.025^(1/n) of all examples differs by something else, and the interval is d − u (B + d) to d + u (B − d).
 *
 * There is none for fewer than {@link MIN_PAIRS} pairs, nor where all differences are equal and nothing bounds them.
 *
 * @param bound 1 for rates, which all weigh the same; left out: differences have no bound.
 * @source percentiles and pairs: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 8 and 13;
 * expanded percentiles: Hesterberg, "What Teachers Should Know About the Bootstrap", The American Statistician 69, 2015;
 * u: Clopper and Pearson, "The use of confidence or fiducial limits illustrated in the case of the binomial", Biometrika
 * 26, 1934, with no success in n trials.
 */
export function pairedBootstrap(
  before: readonly Example[],
  after: readonly Example[],
  { seed, bound }: { seed: number; bound?: number },
): PairedDifference {
  const n = before.length;
  assert(n > 0 && after.length === n, `${n} examples before, ${after.length} after`);
  const difference = ratio(after) - ratio(before), point = { difference, low: null, high: null, n };
  if (n < MIN_PAIRS) return point;
  const resampled = resampledDifferences(before, after, seed);
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

/** Sorted. */
function resampledDifferences(
  before: readonly Example[],
  after: readonly Example[],
  seed: number,
): Float64Array {
  const rng = new Rng(rngKey(seed, "bootstrap"));
  const differences = new Float64Array(BOOTSTRAP_RESAMPLES);
  for (let k = 0; k < differences.length; k++) {
    const drawn = before.map(() => rng.below(before.length));
    differences[k] = ratio(drawn.map((i) => after[i]!)) - ratio(drawn.map((i) => before[i]!));
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

/** Up to this many pairs every one of the 2^n exchanges is looked at. */
const EXACT_PAIRS = 13;

/** Random exchanges for more pairs. */
const EXCHANGES = 10_000;

/**
 * The paired permutation test: how often ratio(higher) − ratio(lower) is at least what it is when each pair exchanges its
 * two sides by chance, as where both evaluations are of the same policy. It is exact: where that holds, it is at most α
 * with probability α at most, for few pairs too, and never below 2^−n.
 *
 * @param level The α that the result is compared with: random exchanges are enough to reach it.
 * @returns The one-sided p-value: over all exchanges for up to 13 pairs, else (1 + k)/(1 + m) with k of m random ones.
 * @source Fisher, "The Design of Experiments", 1935, section 21; random exchanges: Noreen, "Computer-Intensive Methods for
 * Testing Hypotheses", 1989; 1 + k: Phipson and Smyth, "Permutation p-values should never be zero", SAGMB 9, 2010.
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
