import assert from "node:assert/strict";
import { rngKey } from "../../core/random.ts";
import {
  asShare,
  earlierWins,
  estimate,
  kendallTau,
  pairAccuracy,
  pairAgreement,
  spearmanRho,
} from "./rank_statistics.ts";

const near = (value: number | null, expected: number) =>
  assert.ok(value !== null && Math.abs(value - expected) < 1e-12, `${value}, not ${expected}`);

Deno.test("Kendall's τ-b and Spearman's ρ, worked out by hand", () => {
  // Of 6 pairs, 5 agree and 1 does not: (5 − 1) / 6. ρ = 1 − 6 Σd² / (n(n² − 1)) = 1 − 6 · 2 / 60.
  near(kendallTau([1, 2, 3, 4], [1, 3, 2, 4]), 4 / 6);
  near(spearmanRho([1, 2, 3, 4], [1, 3, 2, 4]), 0.8);
  // Ties: of 6 pairs, 4 agree, the pair (2, 3) is a tie in the second list alone, and (1, 2) in the first alone:
  // 4 / √(5 · 5). Ranks 1.5 1.5 3 4 and 1 2.5 2.5 4: Σxy = 3.75, Σx² = Σy² = 4.5 around the middle rank 2.5.
  near(kendallTau([1, 1, 2, 3], [1, 2, 2, 3]), 4 / 5);
  near(spearmanRho([1, 1, 2, 3], [1, 2, 2, 3]), 3.75 / 4.5);
  near(kendallTau([0.9, 0.5, 0.1], [1, 2, 3]), -1);
  near(spearmanRho([0.9, 0.5, 0.1], [1, 2, 3]), -1);
  for (const statistic of [kendallTau, spearmanRho]) {
    assert.equal(statistic([1, 1, 1], [1, 2, 3]), null);
    assert.equal(statistic([1, 2, 3], [1, 1, 1]), null);
    assert.equal(statistic([1], [1]), null);
  }
});

Deno.test("pairs: in the labels' order, alike, and by position", () => {
  // Labels 3 > 2 = 2 > 1 have 5 pairs with an order: 3 are right, 1 is a tie, 1 is wrong.
  assert.deepEqual(pairAccuracy([0.9, 0.5, 0.1, 0.5], [3, 2, 2, 1]), { sum: 3.5, count: 5 });
  assert.deepEqual(pairAgreement([1, 2, 2], [1, 2, 3]), { sum: 2, count: 3 });
  // Shown first and best, shown last and worst; two were shown as one.
  assert.deepEqual(earlierWins([1, 0.5, 0.5, 0], [0, 1, 1, 2]), { sum: 5, count: 5 });
  assert.deepEqual(earlierWins([0.5, 0.5], [0, 1]), { sum: 0, count: 1 });
});

Deno.test("scores that ignore the order have no position bias over an order and its reverse", () => {
  const scores = [0.2, 0.8, 0.5, 0.5, 0.1], order = [3, 0, 4, 1, 2], reverse = order.map((p) => 4 - p);
  assert.equal(earlierWins(scores, order).sum + earlierWins(scores, reverse).sum, 0);
});

Deno.test("an estimate is the share over all groups, and its interval contains it and is a function of the key", () => {
  const shares = Array.from({ length: 40 }, (_, i) => ({ sum: i % 4 === 0 ? 1 : 2, count: 2 }));
  const found = estimate(shares, rngKey(1, "x")), { value, groups, interval } = found;
  // 10 groups with a half and 30 whole ones.
  assert.deepEqual([value, groups], [70 / 80, 40]);
  const [low, high] = interval!;
  assert.ok(low < 70 / 80 && 70 / 80 < high);
  // The standard error is √(¾ · ¼ · ¼ / 40) = 0.034, and the interval about four of them.
  assert.ok(high - low > 0.09 && high - low < 0.18, `${high - low}`);
  assert.deepEqual(estimate(shares, rngKey(1, "x")), found);
  assert.notDeepEqual(estimate(shares, rngKey(2, "x")), found);
  assert.deepEqual(estimate([asShare(0.5), asShare(null)], rngKey(1)), {
    value: 0.5,
    groups: 1,
    interval: null,
  });
  assert.deepEqual(estimate([asShare(null)], rngKey(1)), { value: null, groups: 0, interval: null });
});
