import assert from "node:assert/strict";
import {
  bootstrapMean,
  mcnemar,
  mean,
  pairedBootstrap,
  passAtK,
  quantile,
  wilsonInterval,
} from "./statistics.ts";

function near(actual: number, expected: number, tolerance: number) {
  assert.ok(Math.abs(actual - expected) <= tolerance, `${actual} is not ${expected} within ${tolerance}`);
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

Deno.test("quantiles are linear between order statistics", () => {
  assert.equal(quantile([1, 2, 3, 4], 0), 1);
  assert.equal(quantile([1, 2, 3, 4], 1), 4);
  near(quantile([1, 2, 3, 4], 0.5), 2.5, 1e-12);
  near(quantile([1, 2, 3, 4], 0.25), 1.75, 1e-12);
});

Deno.test("the bootstrap of a mean approaches the normal interval for many values", () => {
  const values = Array.from({ length: 400 }, (_, i) => i % 2);
  const { low, high } = bootstrapMean(values, 1);
  const half = 1.959964 * 0.5 / Math.sqrt(400);
  near(low, 0.5 - half, 0.004);
  near(high, 0.5 + half, 0.004);
});

Deno.test("the bootstrap of three values spans the enumerated distribution", () => {
  // Of 27 equally likely resamples of (0, 0, 1), 8 have mean 0 and 1 has mean 1: both exceed 2.5 %.
  assert.deepEqual(bootstrapMean([0, 0, 1], 3), { low: 0, high: 1 });
  assert.deepEqual(bootstrapMean([2, 2, 2], 3), { low: 2, high: 2 });
});

Deno.test("a bootstrap is a function of its seed", () => {
  const values = [0.1, 0.5, 0.25, 0.75, 0.3];
  assert.deepEqual(bootstrapMean(values, 7), bootstrapMean(values, 7));
});

Deno.test("the paired bootstrap sees differences, not the spread of scenarios", () => {
  const before = [0, 0.2, 0.4, 0.6], after = before.map((x) => x + 0.25);
  const paired = pairedBootstrap(before, after, { seed: 5 });
  near(paired.difference, 0.25, 1e-12);
  near(paired.low, 0.25, 1e-12);
  near(paired.high, 0.25, 1e-12);
});

Deno.test("McNemar's exact p is a binomial tail", () => {
  near(mcnemar(9, 1).p_value, 2 * (1 + 10) / 1024, 1e-12);
  near(mcnemar(0, 6).p_value, 2 / 64, 1e-12);
  assert.equal(mcnemar(3, 3).p_value, 1);
  assert.equal(mcnemar(0, 0).p_value, 1);
  near(mcnemar(1200, 1200).p_value, 1, 1e-9);
});

Deno.test("pass@k is one minus the share of draws without a pass", () => {
  near(passAtK(10, 3, 1), 0.3, 1e-12);
  near(passAtK(5, 2, 2), 0.7, 1e-12); // 1 − C(3,2)/C(5,2)
  assert.equal(passAtK(4, 2, 3), 1);
  assert.equal(passAtK(4, 0, 4), 0);
});

Deno.test("a mean is a sum over a count", () => assert.equal(mean([1, 2, 6]), 3));
