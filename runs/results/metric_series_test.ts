import assert from "node:assert/strict";
import fc from "fast-check";
import { Buckets } from "./metric_series.ts";

/** The mean of values that are all in one bucket. */
function meanOf(values: readonly number[]): number {
  const buckets = new Buckets({ first: 1, last: 1 }, 1);
  values.forEach((value, i) => {
    buckets.add({ seq: i, update: 1, step: i, time_ms: 0, names: ["x"], values: [value] });
  });
  return buckets.of("x").get(0)!.mean;
}

const MAX = Number.MAX_VALUE;

Deno.test("the mean of values that are too large to be added is finite", () => {
  assert.equal(meanOf([1.7e308, -1.7e308]), 0);
  assert.equal(meanOf([MAX, -MAX]), 0);
  assert.deepEqual([meanOf([MAX, MAX, MAX]), meanOf([-MAX, -MAX, -MAX])], [MAX, -MAX]);
  assert.equal(meanOf([MAX, 0]), MAX / 2);
});

Deno.test("the mean of any values is between the least and the greatest", () => {
  const value = fc.double({ noDefaultInfinity: true, noNaN: true });
  fc.assert(fc.property(fc.array(value, { minLength: 1 }), (values) => {
    const mean = meanOf(values);
    assert.ok(mean >= Math.min(...values) && mean <= Math.max(...values), `${mean}`);
  }));
});

Deno.test("the mean of whole numbers is the sum divided by the count, in nearly all digits", () => {
  const whole = fc.integer({ min: -1_000_000, max: 1_000_000 });
  fc.assert(fc.property(fc.array(whole, { minLength: 1 }), (values) => {
    const sum = values.reduce((a, b) => a + b), error = Math.abs(meanOf(values) - sum / values.length);
    // A value adds at most four roundings, of numbers below 2^21, by half of their last digit: 2^-33.
    assert.ok(error <= values.length * 4 * 2 ** -33, `${error}`);
  }));
});
