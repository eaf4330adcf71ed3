import assert from "node:assert/strict";
import { barRoom, countUnshown, edgesOf, flatRange, placeAfter, WHOLE_DISTANCES } from "./chart_places.ts";

Deno.test("keys lead through the places that are shown, and not beyond", () => {
  const shown = { first: 5, last: 30 };
  const after = (at: number | null, ...keys: string[]) => keys.map((key) => placeAfter(key, at, shown));
  assert.deepEqual(after(10, "ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home", "End", "a"), [
    ...[9, 11, 5, 20, 5, 30, null],
  ]);
  assert.deepEqual(after(null, "ArrowLeft", "ArrowRight"), [30, 5]);
  assert.deepEqual(after(30, "ArrowRight"), [30]);
  // A zoom may leave the place behind.
  assert.deepEqual(after(2, "ArrowRight", "ArrowLeft"), [5, 5]);
  assert.equal(placeAfter("End", null, { first: 0, last: -1 }), null);
});

Deno.test("ticks of what is counted are at whole numbers", () => {
  assert.deepEqual(WHOLE_DISTANCES.slice(0, 5), [1, 2, 5, 10, 20]);
  assert.ok(WHOLE_DISTANCES.every(Number.isInteger));
});

Deno.test("a share that never changes is shown between 0 and 1", () => {
  assert.deepEqual([flatRange(0, 0, false), flatRange(1, 1, true), flatRange(0.5, 0.5, true)], [
    ...[[0, 1], [0, 1], [0, 1]],
  ]);
  assert.deepEqual([flatRange(1, 1, false), flatRange(0, 0.5, true), flatRange(3, 3, true)], [
    null,
    null,
    null,
  ]);
});

Deno.test("values without a logarithm are counted", () => {
  assert.equal(countUnshown([{ values: [0, 1, null, -2] }, { values: [0.5, 0] }]), 3);
});

Deno.test("a bar has half the least distance of its places on each side", () => {
  assert.deepEqual([[1, 2, 3], [0, 10, 14], [7], []].map(barRoom), [0.5, 2, 0.5, 0.5]);
});

Deno.test("an axis reaches over its places or the chosen part, and has room for a bar or a single place", () => {
  assert.deepEqual([[0], [3, 4, 9], []].map((places) => edgesOf(places, { bar_room: null })), [
    ...[[-0.5, 0.5], [3, 9], [-0.5, 0.5]],
  ]);
  assert.deepEqual(edgesOf([3, 4, 9], { from: 4, bar_room: null }), [4, 9]);
  assert.deepEqual(edgesOf([3, 4, 9], { from: 20, to: 4, bar_room: null }), [19.5, 20.5]);
  assert.deepEqual(edgesOf([3, 4, 9], { from: null, to: null, bar_room: 0.5 }), [2.5, 9.5]);
});
