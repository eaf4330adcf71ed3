import assert from "node:assert/strict";
import { positive, smoothed, stacked } from "./smooth.ts";

Deno.test("smoothing weighs the past without a bias at the start, and keeps gaps", () => {
  assert.deepEqual(smoothed([4, 4, null, 4], 0.9).map((value) => value && Math.round(value * 1e9) / 1e9), [
    ...[4, 4, null, 4],
  ]);
  // (0.5 · 0 · 0.5 + 0.5 · 3) / (1 - 0.25) = 2
  assert.deepEqual(smoothed([0, 3], 0.5), [0, 2]);
  assert.deepEqual(smoothed([1, 2], 0), [1, 2]);
});

Deno.test("a logarithmic scale has no place for zero and below", () => {
  assert.deepEqual(positive([1, 0, -2, null, 3]), [1, null, null, null, 3]);
});

Deno.test("stacked bars stand on those before them, and a missing value has no height", () => {
  assert.deepEqual(stacked([[1, 2, null], [10, null, 30], [100, 200, 300]]), [[1, 2, 0], [11, 2, 30], [
    ...[111, 202, 330],
  ]]);
  assert.deepEqual(stacked([]), []);
});
