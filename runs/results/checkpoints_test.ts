import assert from "node:assert/strict";
import { bestEvaluated, type EvaluatedUpdate } from "./checkpoints.ts";

const items = [1, 2, 3, 4].map((update) => ({ name: `update_00000${update}`, update }));

function best(metric: EvaluatedUpdate["metric"], values: Record<number, number>): string | null {
  const evaluated = Object.entries(values).map(([update, value]) => ({
    update: Number(update),
    metric,
    value,
  }));
  return bestEvaluated(items, evaluated);
}

Deno.test("the best checkpoint has the highest pass rate or the lowest loss, the later among equals", () => {
  assert.equal(best("eval/pass_rate", { 1: 0.25, 2: 0.75, 4: 0.5 }), "update_000002");
  assert.equal(best("eval/pass_rate", { 1: 0.5, 3: 0.5 }), "update_000003");
  assert.equal(best("eval/loss", { 1: 2, 2: 1, 4: 1.5 }), "update_000002");
});

Deno.test("an evaluation without a checkpoint does not count", () => {
  assert.equal(best("eval/pass_rate", { 0: 1, 2: 0.25, 9: 1 }), "update_000002");
  assert.equal(best("eval/pass_rate", { 0: 1 }), null);
  assert.equal(bestEvaluated([], []), null);
});
