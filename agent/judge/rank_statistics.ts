/** How well scores agree with labels, within a group and over many groups, with the uncertainty of the latter. */

import { Rng, type RngKey } from "../../core/random.ts";

/** The resamples of a bootstrap interval. */
export const RESAMPLES = 2000;

/**
 * Kendall's τ-b of two lists: 1 for the same order, −1 for the reverse; ties in both lists count as in scipy.
 * Null when a list has no two different values.
 */
export function kendallTau(a: readonly number[], b: readonly number[]): number | null {
  let agree = 0, only_a = 0, only_b = 0;
  for (const [x, y] of pairSigns(a, b)) {
    agree += x * y;
    // Pairs that are no tie in this list.
    only_a += x * x;
    only_b += y * y;
  }
  return only_a > 0 && only_b > 0 ? agree / Math.sqrt(only_a * only_b) : null;
}

/** Spearman's ρ: the correlation of ranks, of which equal values share the mean. Null as for {@link kendallTau}. */
export function spearmanRho(a: readonly number[], b: readonly number[]): number | null {
  const x = ranks(a), y = ranks(b), middle = (a.length + 1) / 2;
  const product = (left: readonly number[], right: readonly number[]) =>
    left.reduce((sum, rank, i) => sum + (rank - middle) * (right[i]! - middle), 0);
  const spread = Math.sqrt(product(x, x) * product(y, y));
  return spread > 0 ? product(x, y) / spread : null;
}

/** Ranks from 1; equal values share the mean of their ranks. */
function ranks(values: readonly number[]): number[] {
  return values.map((value) => {
    const below = values.filter((other) => other < value).length;
    const equal = values.filter((other) => other === value).length;
    return below + (equal + 1) / 2;
  });
}

/** A share: `sum` of `count` cases. */
export interface Share {
  sum: number;
  count: number;
}

/** The pairs with different labels that the scores put in the order of the labels; a tie of the scores counts half. */
export function pairAccuracy(scores: readonly number[], labels: readonly number[]): Share {
  const compared = [...pairSigns(scores, labels)].filter(([, label]) => label !== 0);
  return {
    sum: compared.reduce((sum, [score, label]) => sum + (score === label ? 1 : score === 0 ? 0.5 : 0), 0),
    count: compared.length,
  };
}

/** The pairs that two lists order alike, ties included. */
export function pairAgreement(a: readonly number[], b: readonly number[]): Share {
  const pairs = [...pairSigns(a, b)];
  return { sum: pairs.filter(([x, y]) => x === y).length, count: pairs.length };
}

/**
 * How much more often the one of a pair that was shown earlier has the higher score than the one that was shown later:
 * from −1 to 1. Pairs that were shown at one position do not count. Over an order and its reverse, scores that do not
 * depend on the order give 0.
 */
export function earlierWins(scores: readonly number[], positions: readonly number[]): Share {
  const compared = [...pairSigns(scores, positions)].filter(([, position]) => position !== 0);
  return {
    sum: compared.reduce((sum, [score, position]) => sum - score * position, 0),
    count: compared.length,
  };
}

/** For each pair, the signs of its differences in both lists. */
function* pairSigns(a: readonly number[], b: readonly number[]): Generator<[number, number]> {
  for (let i = 0; i < a.length; i++) {
    for (let j = i + 1; j < a.length; j++) yield [Math.sign(a[i]! - a[j]!) + 0, Math.sign(b[i]! - b[j]!) + 0];
  }
}

/** A statistic of several groups. */
export interface Estimate {
  /** Null: no group has it. */
  value: number | null;
  /** The groups that have it. */
  groups: number;
  /** The middle 95 % of the values of resampled groups; null with fewer than two groups. */
  interval: readonly [low: number, high: number] | null;
}

/** The sum over groups by the count over groups, with a bootstrap interval: groups are drawn with replacement. */
export function estimate(shares: readonly Share[], key: RngKey): Estimate {
  const known = shares.filter(({ count }) => count > 0), groups = known.length;
  const value = (of: readonly Share[]) =>
    of.reduce((all, { sum }) => all + sum, 0) / of.reduce((all, { count }) => all + count, 0);
  if (groups === 0) return { value: null, groups, interval: null };
  if (groups === 1) return { value: value(known), groups, interval: null };
  const rng = new Rng(key);
  const values = Array.from({ length: RESAMPLES }, () => value(known.map(() => known[rng.below(groups)]!)));
  values.sort((a, b) => a - b);
  const at = (share: number) => values[Math.round(share * (RESAMPLES - 1))]!;
  return { value: value(known), groups, interval: [at(0.025), at(0.975)] };
}

/** A number as a share, so that {@link estimate} is the mean; null counts in no mean. */
export function asShare(value: number | null): Share {
  return value === null ? { sum: 0, count: 0 } : { sum: value, count: 1 };
}
