import assert from "node:assert/strict";
import { gainOf, OBJECTIVE_NAMES, objectiveOf } from "./objective.ts";

Deno.test("a higher rate and a lower loss are a gain", () => {
  assert.equal(gainOf("eval/pass_rate", { from: 0.25, to: 0.75 }), 0.5);
  assert.equal(gainOf("eval/loss", { from: 0.25, to: 0.75 }), -0.5);
  for (const metric of OBJECTIVE_NAMES) assert.equal(gainOf(metric, { from: 1.5, to: 1.5 }), 0);
});

Deno.test("an evaluation has the objective of which it has a value", () => {
  assert.deepEqual(objectiveOf({ pass_rate: { rate: 0 }, loss: null }), {
    metric: "eval/pass_rate",
    value: 0,
  });
  assert.deepEqual(objectiveOf({ pass_rate: null, loss: 0 }), { metric: "eval/loss", value: 0 });
  assert.equal(objectiveOf({ pass_rate: null, loss: null }), null);
});
