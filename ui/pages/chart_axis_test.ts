import assert from "node:assert/strict";
import { axisOf, placedLine, updatesWithin } from "./chart_axis.tsx";

/** Update u ends after 10 u seconds; update 3 has no sample. */
const placing = (update: number) => update === 3 ? null : 10 * update;

Deno.test("a line across another axis has its points and its band where their updates lie there", () => {
  const line = { label: "a", colour: 1, x: [1, 2, 3, 4], values: [5, null, 7, 8] };
  const band = { low: [4, null, 6, 7], high: [6, null, 8, 9] };
  assert.deepEqual(placedLine({ ...line, band }, placing), {
    ...{ label: "a", colour: 1, x: [10, 20, 40], values: [5, null, 8] },
    band: { low: [4, null, 7], high: [6, null, 9] },
  });
  assert.deepEqual(placedLine(line, () => 7).x, [7], "a place has one point");
});

Deno.test("a part of an axis has the updates that lie in it", () => {
  const samples = [1, 2, 3, 4].map((update) => ({ update }));
  const within = (from: number | null, to: number | null) => updatesWithin(samples, placing, { from, to });
  assert.deepEqual(within(11, 40), { from: 2, to: 4 });
  assert.deepEqual(within(null, 20), { from: 1, to: 2 });
  for (const [from, to] of [[null, null], [41, null]] as const) {
    assert.deepEqual(within(from, to), { from: null, to: null });
  }
});

Deno.test("an address names an axis, or the updates", () => {
  assert.deepEqual(["time", "step", "toString", null].map(axisOf), ["time", "step", "update", "update"]);
});
