import assert from "node:assert/strict";
import { resultText, type RunResult } from "./run_result.ts";

const point = (update: number, value: number) => ({ update, value, pass_rate: null });

const evaluation = (metric: "eval/pass_rate" | "eval/loss", values: [number, number], fell = false) => ({
  ...{ metric, before: point(0, values[0]), best: point(2, 1), after: point(4, values[1]) },
  ...{ difference: null, fell },
});

const result = (
  more: Partial<RunResult> = {},
  last_metrics: Record<string, number> = { "reward/mean": 0.75 },
) =>
  resultText({
    ...{ run: { progress: { update: 4 }, last_metrics }, metric: "reward/mean", first: 0.25 },
    ...{ seconds: 80, evaluation: null },
    ...more,
  });

Deno.test("a completed run is told by its updates, its time, its metric and its evaluations", () => {
  assert.equal(result(), "It trained 4 updates in 1:20: reward/mean went from 0.25 to 0.75.");
  assert.equal(
    result({ evaluation: evaluation("eval/pass_rate", [0.2, 0.6]) }),
    "It trained 4 updates in 1:20: reward/mean went from 0.25 to 0.75, " +
      "the held-out pass rate went from 20 % to 60 %.",
  );
  assert.equal(result({ first: 0.75 }), "It trained 4 updates in 1:20: reward/mean stayed at 0.75.");
  assert.equal(
    result({ first: null, evaluation: evaluation("eval/loss", [2.5, 3], true) }),
    "It trained 4 updates in 1:20: the held-out loss went from 2.5 to 3, worse than its best beyond chance.",
  );
});

Deno.test("what is not known of a completed run is not told", () => {
  assert.equal(result({ seconds: null, first: null }), "It trained 4 updates.");
  assert.equal(result({ seconds: null }, {}), "It trained 4 updates.");
  const one = { progress: { update: 1 }, last_metrics: { "reward/mean": 0.5 } };
  assert.equal(result({ run: one, first: 0.5 }), "It trained 1 update in 1:20: reward/mean was 0.5.");
});
