import assert from "node:assert/strict";
import {
  evenExample,
  exchangeTest,
  MIN_PAIRS,
  normalTail,
  pairedBootstrap,
  ratio,
} from "./paired_comparison.ts";

function near(actual: number | null, expected: number, tolerance: number) {
  assert.ok(actual !== null && Math.abs(actual - expected) <= tolerance, `${actual} is not ${expected}`);
}

/** Pairs of examples with weight 1. */
const pairs = (before: number[], after: number[]) =>
  [before.map(evenExample), after.map(evenExample)] as const;
/** Pairs whose first side is 0. */
const differing = (differences: number[]) => pairs(differences.map(() => 0), differences);

Deno.test("the tail of the normal distribution has the values of the tables", () => {
  for (
    const [x, tail] of [[0, 0.5], [1, 0.158655], [1.959964, 0.025], [2.575829, 0.005], [3.290527, 0.0005]]
  ) {
    near(normalTail(x!), tail!, 1e-6);
  }
});

Deno.test("a difference is one of ratios with weighted examples", () => {
  // A row of one token gets worse by 1, one of 99 tokens better by 0.1 each.
  const before = [{ sum: 2, weight: 1 }, { sum: 198, weight: 99 }];
  const after = [{ sum: 3, weight: 1 }, { sum: 198 - 9.9, weight: 99 }];
  assert.deepEqual([ratio(before), ratio(after)], [2, (201 - 9.9) / 100]);
  near(pairedBootstrap(before, after, { seed: 1 }).difference, -0.089, 1e-12);
});

Deno.test("the interval of many pairs approaches that of the normal distribution", () => {
  const values = Array.from({ length: 400 }, (_, i) => i % 2);
  const { low, high } = pairedBootstrap(...differing(values), { seed: 1 });
  const half = 1.959964 * 0.5 / Math.sqrt(400);
  near(low, 0.5 - half, 0.004);
  near(high, 0.5 + half, 0.004);
});

Deno.test("the interval of a ratio is that of its linear form, for many rows of unlike length", () => {
  const rows = Array.from(
    { length: 900 },
    (_, i) => ({ weight: 1 + i % 7, mean: 1 + i % 2, more: (i % 3 - 1) / 2 }),
  );
  const side = (share: number) =>
    rows.map(({ weight, mean, more }) => ({ sum: weight * (mean + share * more), weight }));
  const { difference, low, high } = pairedBootstrap(side(0), side(1), { seed: 1 });
  // The delta method: the variance of w (d − D) over n, by the mean weight.
  const weights = rows.reduce((sum, { weight }) => sum + weight, 0);
  const squares = rows.reduce((sum, { weight, more }) => sum + (weight * (more - difference)) ** 2, 0);
  const half = 1.959964 * Math.sqrt(squares) / weights;
  near(low, difference - half, half / 20);
  near(high, difference + half, half / 20);
});

Deno.test("the interval is a function of its seed", () => {
  const some = differing([0.1, 0.5, 0.25, 0.75, 0.3, 0]);
  assert.deepEqual(pairedBootstrap(...some, { seed: 7 }), pairedBootstrap(...some, { seed: 7 }));
  assert.notDeepEqual(pairedBootstrap(...some, { seed: 7 }), pairedBootstrap(...some, { seed: 8 }));
});

Deno.test("it depends on differences, not on the spread of examples", () => {
  const before = [0, 0.1, 0.2, 0.3, 0.4, 0.6], after = before.map((x, i) => x + 0.25 + i % 2 / 100);
  const { difference, low, high } = pairedBootstrap(...pairs(before, after), { seed: 5 });
  near(difference, 0.255, 1e-12);
  near(low, 0.25, 1e-12);
  near(high, 0.26, 1e-12);
});

Deno.test("fewer than six pairs have no interval, six have one", () => {
  for (const n of [1, 2, 3, MIN_PAIRS - 1]) {
    for (const bound of [undefined, 1]) {
      const options = { seed: 1, ...(bound !== undefined && { bound }) };
      const some = differing(Array.from({ length: n }, (_, i) => (i + 1) / n));
      const { difference, ...rest } = pairedBootstrap(...some, options);
      near(difference, (n + 1) / 2 / n, 1e-12);
      assert.deepEqual(rest, { low: null, high: null, n });
    }
  }
  const six = pairedBootstrap(...differing([1, 2, 3, 4, 5, 6]), { seed: 1 });
  assert.ok(1 < six.low! && six.low! < 3.5 && 3.5 < six.high! && six.high! < 6);
});

Deno.test("equal differences of rates have an interval too, for differences that n examples did not show", () => {
  const paired = ([before, after]: [number, number], n: number) =>
    pairedBootstrap(...pairs(Array(n).fill(before), Array(n).fill(after)), { seed: 1, bound: 1 });
  // No other difference in 32: at most 10.89 % of examples have one (Clopper and Pearson).
  const u = 0.10887;
  const none = paired([0, 0], 32), all = paired([0, 1], 32), third = paired([1 / 3, 2 / 3], 32);
  near(none.low, -u, 1e-4);
  near(none.high, u, 1e-4);
  assert.deepEqual([all.difference, all.high, all.n], [1, 1, 32]);
  near(all.low, 1 - 2 * u, 1e-4);
  near(third.low, 1 / 3 - u * 4 / 3, 1e-4);
  near(third.high, 1 / 3 + u * 2 / 3, 1e-4);
  assert.ok(paired([0, 0], 200).high! < none.high!);
});

Deno.test("equal unbounded differences have no interval", () => {
  const { difference, low, high } = pairedBootstrap(...differing(Array(40).fill(0.25)), { seed: 1 });
  near(difference, 0.25, 1e-12);
  assert.deepEqual([low, high], [null, null]);
});

/** All ways in which n pairs can lose, tie or win, with their probabilities. */
function* outcomes(n: number, [lose, tie, win]: readonly [number, number, number]) {
  const factorial = (k: number): number => k < 2 ? 1 : k * factorial(k - 1);
  for (let losses = 0; losses <= n; losses++) {
    for (let wins = 0; wins + losses <= n; wins++) {
      const ties = n - losses - wins;
      const ways = factorial(n) / factorial(losses) / factorial(wins) / factorial(ties);
      const differences = [...Array(losses).fill(-1), ...Array(ties).fill(0), ...Array(wins).fill(1)];
      yield { differences, probability: ways * lose ** losses * tie ** ties * win ** wins };
    }
  }
}

Deno.test("the interval covers the true difference with about its nominal probability, by enumeration", () => {
  for (const n of [MIN_PAIRS, 8]) {
    const made = new Map<string, ReturnType<typeof pairedBootstrap>>();
    const intervalOf = (differences: number[]) => {
      const key = differences.join();
      if (!made.has(key)) made.set(key, pairedBootstrap(...differing(differences), { seed: 1, bound: 1 }));
      return made.get(key)!;
    };
    for (
      const [lose, tie, win, least] of [
        // Plain percentiles cover it in as few as 84 %.
        [0.3, 0.4, 0.3, 0.94],
        [0.1, 0.5, 0.4, 0.93],
        [0.05, 0.15, 0.8, 0.94],
        // Most pairs are equal: all pairs that differ can do so in the rarer direction.
        [0.2, 0.7, 0.1, 0.84],
      ] as const
    ) {
      let total = 0, covered = 0;
      for (const { differences, probability } of outcomes(n, [lose, tie, win])) {
        const { low, high } = intervalOf(differences);
        total += probability;
        if (low! < win - lose + 1e-9 && win - lose - 1e-9 < high!) covered += probability;
      }
      near(total, 1, 1e-9);
      assert.ok(covered > least, `n ${n}, chances ${lose}, ${tie}, ${win}: ${covered}`);
    }
  }
});

Deno.test("the exchange test counts the exchanges at least as extreme, computed by hand", () => {
  const p = (differences: number[]) => exchangeTest(...differing(differences), { seed: 1, level: 0.025 });
  // One way of 2^n to have every difference on one side; two of eight when one of three is 0.
  assert.deepEqual([p([1]), p([1, 2]), p([0.25, 0.3, 0.5]), p([1, 1, 0])], [1 / 2, 1 / 4, 1 / 8, 2 / 8]);
  // −1, 2, 3 add up to 4: so do 2 + 3 − 1 and, more, 1 + 2 + 3.
  assert.equal(p([-1, 2, 3]), 2 / 8);
  assert.equal(p(Array(8).fill(0)), 1);
  assert.equal(p(Array(13).fill(1)), 2 ** -13);
  // The side called lower is higher here.
  assert.equal(p([-1, -2, -3]), 1);
});

Deno.test("exchanged rows take their tokens with them", () => {
  const lower = [{ sum: 1, weight: 1 }, { sum: 0, weight: 9 }];
  const higher = [{ sum: 5, weight: 9 }, { sum: 3, weight: 1 }];
  // 8/10 − 1/10 as given; 4/2 − 5/18 with the first exchanged, 5/18 − 4/2 with the second, 1/10 − 8/10 with both.
  assert.equal(exchangeTest(lower, higher, { seed: 1, level: 0.025 }), 2 / 4);
});

Deno.test("random exchanges of many pairs agree with the binomial tail, and suffice for the level", () => {
  // Ten of forty pairs differ, nine of them in one direction: as likely as nine or ten heads in ten tosses.
  const p = exchangeTest(...differing(Array.from({ length: 40 }, (_, i) => i < 9 ? 1 : i < 10 ? -1 : 0)), {
    seed: 3,
    level: 0.025,
  });
  // Four standard deviations of a share of 10,000.
  near(p, 11 / 1024, 4 * Math.sqrt(11 / 1024 / 10_000));
  const certain = differing(Array(40).fill(1));
  assert.equal(exchangeTest(...certain, { seed: 3, level: 0.025 }), 1 / 10_001);
  const level = 0.025 / 499;
  assert.ok(exchangeTest(...certain, { seed: 3, level }) <= level / 10);
});
