import assert from "node:assert/strict";
import { windowOf } from "./window.ts";

Deno.test("the rows of a viewport are drawn, with ten beyond each edge", () => {
  assert.deepEqual(windowOf(5000, 20, { top: 2000, height: 400 }), { first: 90, last: 130 });
  assert.deepEqual(windowOf(5000, 20, { top: 0, height: 400 }), { first: 0, last: 30 });
  assert.deepEqual(windowOf(5000, 20, { top: 99_600, height: 400 }), { first: 4970, last: 5000 });
});

Deno.test("a list that has become shorter than its scroll shows no row that it lacks", () => {
  assert.deepEqual(windowOf(3, 20, { top: 2000, height: 400 }), { first: 3, last: 3 });
  assert.deepEqual(windowOf(0, 20, { top: -50, height: 400 }), { first: 0, last: 0 });
});
