/** Rates with their uncertainty. */

import { assert } from "../../core/errors.ts";

/** The 97.5 % point of the standard normal: all intervals here are 95 % intervals. */
const Z95 = 1.959963984540054;

export interface Interval {
  low: number;
  high: number;
}

/**
 * Wilson's score interval of a binomial rate, 95 %.
 *
 * @param attempts An effective number need not be an integer.
 * @source Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927.
 */
function wilsonInterval(rate: number, attempts: number): Interval {
  const z2 = Z95 * Z95;
  const center = rate + z2 / (2 * attempts);
  const half = Z95 * Math.sqrt((rate * (1 - rate) + z2 / (4 * attempts)) / attempts);
  const scale = 1 + z2 / attempts;
  return {
    low: rate === 0 ? 0 : (center - half) / scale,
    high: rate === 1 ? 1 : (center + half) / scale,
  };
}

/**
 * The interval of a rate from several attempts at each of n scenarios, 95 %: Wilson's at the effective number of
 * attempts
 *
 *   n* = p (1 − p) / (s²/n) · (z/t)², at least n and at most all attempts,
 *
 * with p and s² the mean and variance of the scenarios' rates, and t the 97.5 % point of Student's t with n − 1 degrees
 * of freedom. Attempts at one scenario are correlated, and s² measures how much. If all or none pass it cannot: then n*
 * = n, as if each scenario had one attempt, so the interval never has zero width. With one attempt for each it is
 * Wilson's interval.
 *
 * @param rates The rate of each scenario, in [0, 1].
 * @param attempts The attempts at all scenarios together.
 * @source effective sample size: Rao and Scott, "A simple method for the analysis of clustered binary data", Biometrics
 * 48, 1992; degrees of freedom: Korn and Graubard, "Confidence intervals for proportions with small expected number of
 * positive counts estimated from survey data", Survey Methodology 24, 1998; Wilson's form: Franco, Little, Louis and
 * Slud, "Comparative study of confidence intervals for proportions in complex sample surveys", JSSAM 7, 2019.
 */
export function clusteredInterval(rates: readonly number[], attempts: number): Interval {
  const n = rates.length;
  assert(n > 0 && attempts >= n, `a rate of ${n} scenarios in ${attempts} attempts`);
  const rate = mean(rates);
  if (n === 1 || rate === 0 || rate === 1) return wilsonInterval(rate, n);
  const variance = rates.reduce((sum, x) => sum + (x - rate) ** 2, 0) / (n - 1);
  const effective = rate * (1 - rate) / (variance / n) * (Z95 / studentT975(n - 1)) ** 2;
  return wilsonInterval(rate, Math.min(attempts, Math.max(n, effective)));
}

/**
 * The 97.5 % point of Student's t, within 0.005.
 *
 * @param df Degrees of freedom, 1 or more.
 * @source exact for 1 and 2; else the expansion in 1/df of Abramowitz and Stegun, 26.7.5.
 */
export function studentT975(df: number): number {
  if (df === 1) return Math.tan(0.475 * Math.PI);
  if (df === 2) return 0.95 / Math.sqrt(2 * 0.975 * 0.025);
  const z = Z95;
  const terms = [
    z,
    (z ** 3 + z) / 4,
    (5 * z ** 5 + 16 * z ** 3 + 3 * z) / 96,
    (3 * z ** 7 + 19 * z ** 5 + 17 * z ** 3 - 15 * z) / 384,
    (79 * z ** 9 + 776 * z ** 7 + 1482 * z ** 5 - 1920 * z ** 3 - 945 * z) / 92_160,
  ];
  return terms.reduce((sum, term, k) => sum + term / df ** k, 0);
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
 * McNemar's exact test: the two-sided probability of discordant pairs at least as uneven, if both directions are
 * equally likely.
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
