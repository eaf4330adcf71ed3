import assert from "node:assert/strict";
import { MAX_COMPARED } from "./compare_address.ts";
import { DASHES, letterOf } from "../parts/run_signs.ts";
import { byUpdate, linesOf, placingOf } from "./compare_lines.ts";

const point = (last_update: number, ...values: (number | null)[]) => ({
  first_update: last_update,
  last_update,
  values,
});

Deno.test("each run has a colour, a pattern and a letter of its own", () => {
  const runs = [...Array(MAX_COMPARED).keys()];
  const metric = { name: "m", points: [point(1, ...runs)] };
  const lines = linesOf(metric, runs.map(() => byUpdate));
  for (const of_line of ["colour", "label", "dash"] as const) {
    assert.equal(new Set(lines.map((line) => String(line[of_line]))).size, MAX_COMPARED);
  }
  assert.equal(DASHES.length, MAX_COMPARED);
  assert.equal(letterOf(7), "H");
});

Deno.test("a line has the points that its run has, and a run without the metric has no line", () => {
  const metric = {
    name: "m",
    points: [point(1, 5, null, null), point(2, 6, 7, null), point(4, null, 8, null)],
  };
  const lines = linesOf(metric, [byUpdate, byUpdate, byUpdate]);
  assert.deepEqual(lines.map(({ label, x, values }) => [label, x, values]), [
    ["A", [1, 2], [5, 6]],
    ["B", [2, 4], [7, 8]],
  ]);
});

Deno.test("points stand at the step or the time of their update, and not where it is unknown", () => {
  const samples = [
    { update: 1, step: 2, time: "2026-01-01T00:00:30Z" },
    { update: 2, step: 4, time: "2026-01-01T00:01:30Z" },
  ];
  const started_at = "2026-01-01T00:00:00Z",
    metric = { name: "m", points: [point(1, 5), point(2, 6), point(3, 7)] };
  const at = (axis: "step" | "time" | "update") =>
    linesOf(metric, [placingOf(samples, { axis, started_at })]).map(({ x }) => x);
  assert.deepEqual([at("step"), at("time"), at("update")], [[[2, 4]], [[30, 90]], [[1, 2, 3]]]);
});

Deno.test("the places of a line grow", () => {
  const metric = { name: "m", points: [point(1, 5), point(2, 6), point(3, 7)] };
  const [line] = linesOf(metric, [(update) => update === 2 ? 1 : update]);
  assert.deepEqual([line!.x, line!.values], [[1, 3], [5, 7]]);
});
