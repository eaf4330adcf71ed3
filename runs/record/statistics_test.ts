import assert from "node:assert/strict";
import { clusteredInterval, mcnemar, mean, quantile, studentT975 } from "./statistics.ts";

function near(actual: number, expected: number, tolerance: number) {
  assert.ok(Math.abs(actual - expected) <= tolerance, `${actual} is not ${expected} within ${tolerance}`);
}

/** The interval of scenarios with one attempt each, which is Wilson's. */
function wilsonInterval(passes: number, attempts: number) {
  const rates = Array.from({ length: attempts }, (_, i) => i < passes ? 1 : 0);
  return clusteredInterval(rates, attempts);
}

Deno.test("Wilson's interval equals Newcombe 1998, table I, method 3", () => {
  for (
    const [passes, attempts, low, high] of [
      [81, 263, 0.2553, 0.3662],
      [15, 148, 0.0624, 0.1605],
      [0, 20, 0, 0.1611],
      [1, 29, 0.0061, 0.1718],
    ] as const
  ) {
    const interval = wilsonInterval(passes, attempts);
    near(interval.low, low, 5e-5);
    near(interval.high, high, 5e-5);
  }
});

Deno.test("Wilson's interval is symmetric in passes and failures and stays in [0, 1]", () => {
  for (const attempts of [1, 2, 7, 100]) {
    for (let passes = 0; passes <= attempts; passes++) {
      const a = wilsonInterval(passes, attempts), b = wilsonInterval(attempts - passes, attempts);
      near(a.low, 1 - b.high, 1e-12);
      assert.ok(a.low >= 0 && a.high <= 1 && a.low <= passes / attempts && a.high >= passes / attempts);
    }
  }
});

Deno.test("Student's t has the values of the tables", () => {
  const table = [[1, 12.706], [2, 4.303], [3, 3.182], [4, 2.776], [5, 2.571], [10, 2.228], [
    30,
    2.042,
  ]] as const;
  for (const [df, value] of table) near(studentT975(df), value, 0.005);
  near(studentT975(1e9), 1.959964, 1e-6);
});

Deno.test("if all or none pass, each scenario counts as one attempt", () => {
  for (const n of [1, 8, 32]) {
    // Wilson's interval of a rate of 0 ends at z² / (n + z²).
    const width = 1.959964 ** 2 / (n + 1.959964 ** 2);
    const none = clusteredInterval(Array(n).fill(0), 8 * n), all = clusteredInterval(Array(n).fill(1), 8 * n);
    assert.deepEqual([none.low, all.high], [0, 1]);
    near(none.high, width, 1e-6);
    near(all.low, 1 - width, 1e-6);
  }
});

Deno.test("equal rates give the interval of all attempts, and rates of 0 and 1 that of the scenarios", () => {
  assert.deepEqual(clusteredInterval(Array(6).fill(0.5), 24), wilsonInterval(12, 24));
  // Each scenario passes always or never: four attempts say no more than one.
  assert.deepEqual(clusteredInterval([1, 0, 0, 1, 1], 20), wilsonInterval(3, 5));
});

Deno.test("attempts at one scenario count by the variance between scenarios, with few of them by Student's t", () => {
  // p = 1/2, s² = 1/24, so p (1 − p)/(s²/4) = 24, and t = 3.182 with 3 degrees of freedom. Wilson's half width at p = 1/2
  // is z/(2 √(n* + z²)).
  const z = 1.959964, effective = 24 * (z / 3.182446) ** 2, half = z / (2 * Math.sqrt(effective + z * z));
  const { low, high } = clusteredInterval([0.25, 0.5, 0.75, 0.5], 64);
  near(low, 0.5 - half, 5e-4);
  near(high, 0.5 + half, 5e-4);
});

/**
 * C(m, k) B(a + k, b + m − k) / B(a, b): k passes in m attempts with probability Beta(a, b), or p without correlation.
 */
function betaBinomial(m: number, p: number, icc: number): number[] {
  const spread = icc === 0 ? 0 : icc / (1 - icc);
  const rising = (chance: number, n: number) =>
    Array.from({ length: n }, (_, i) => chance + i * spread).reduce((a, b) => a * b, 1);
  let choose = 1;
  return Array.from({ length: m + 1 }, (_, k) => {
    if (k > 0) choose *= (m - k + 1) / k;
    return choose * rising(p, k) * rising(1 - p, m - k) / rising(1, m);
  });
}

/** All ways in which n scenarios can have 0, …, m passes, with their probabilities. */
function* outcomes(
  n: number,
  chances: readonly number[],
): Generator<{ rates: number[]; probability: number }> {
  const m = chances.length - 1;
  function* rest(left: number, k: number): Generator<{ rates: number[]; probability: number }> {
    if (k === m) {
      return yield { rates: Array(left).fill(1), probability: chances[m]! ** left };
    }
    let choose = 1;
    for (let count = 0; count <= left; count++) {
      if (count > 0) choose *= (left - count + 1) / count;
      for (const { rates, probability } of rest(left - count, k + 1)) {
        const own = Array(count).fill(k / m);
        yield { rates: [...own, ...rates], probability: choose * chances[k]! ** count * probability };
      }
    }
  }
  yield* rest(n, 0);
}

Deno.test("the interval covers the true rate with about its nominal probability, by enumeration", () => {
  for (const [n, m] of [[8, 2], [16, 2], [8, 4]] as const) {
    for (const p of [0.05, 0.2, 0.5, 0.8, 0.95]) {
      for (const icc of [0, 0.3, 0.8]) {
        let total = 0, covered = 0;
        for (const { rates, probability } of outcomes(n, betaBinomial(m, p, icc))) {
          const { low, high } = clusteredInterval(rates, n * m);
          total += probability;
          if (low <= p && p <= high) covered += probability;
        }
        near(total, 1, 1e-9);
        // A percentile bootstrap of the same rates covers it in as few as 0.4 of all cases.
        assert.ok(covered > 0.91, `n ${n}, m ${m}, p ${p}, icc ${icc}: ${covered}`);
      }
    }
  }
});

Deno.test("quantiles are linear between order statistics", () => {
  assert.equal(quantile([1, 2, 3, 4], 0), 1);
  assert.equal(quantile([1, 2, 3, 4], 1), 4);
  near(quantile([1, 2, 3, 4], 0.5), 2.5, 1e-12);
  near(quantile([1, 2, 3, 4], 0.25), 1.75, 1e-12);
});

Deno.test("a mean is a sum over a count", () => assert.equal(mean([1, 2, 6]), 3));

Deno.test("McNemar's exact p is a binomial tail", () => {
  near(mcnemar(9, 1).p_value, 2 * (1 + 10) / 1024, 1e-12);
  near(mcnemar(0, 6).p_value, 2 / 64, 1e-12);
  assert.equal(mcnemar(3, 3).p_value, 1);
  assert.equal(mcnemar(0, 0).p_value, 1);
  near(mcnemar(1200, 1200).p_value, 1, 1e-9);
});
