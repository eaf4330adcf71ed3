import assert from "node:assert/strict";
import { scaleOf } from "./interval.ts";

Deno.test("zero and all intervals have a place on a scale, in their order", () => {
  const scale = scaleOf([{ difference: 0.1, low: -0.1, high: 0.3 }, {
    difference: 0.5,
    low: null,
    high: null,
  }]);
  const places = [-0.1, 0, 0.1, 0.3, 0.5].map(scale);
  assert.deepEqual(places, places.toSorted((a, b) => a - b));
  assert.ok(places[0]! > 0 && places.at(-1)! < 1);
  assert.ok(Math.abs(scale(0.2) - 0.5) < 1e-12, "the middle of -0.1 and 0.5");
  assert.equal(scaleOf([{ difference: 0, low: 0, high: 0 }])(0), 0.5);
  const positive = scaleOf([{ difference: 2, low: 1, high: 3 }]);
  assert.ok(positive(0) > 0 && positive(0) < positive(1));
  const negative = scaleOf([{ difference: -2, low: -3, high: -1 }]);
  assert.ok(negative(0) > negative(-1) && negative(0) < 1);
});
