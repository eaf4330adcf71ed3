import assert from "node:assert/strict";
import { planSteps } from "./epochs.ts";

const training = { epochs: 2, batch_tokens: 100, ctx: 64 };

Deno.test("an epoch takes every row once, in an order of its own", () => {
  const costs = Array.from({ length: 50 }, () => 10);
  const steps = planSteps(costs, 1, training);
  assert.equal(steps.length, 10);
  assert.ok(steps.every((step) => step.length === 10));
  const epochs = [steps.slice(0, 5).flat(), steps.slice(5).flat()];
  for (const epoch of epochs) {
    assert.deepEqual(epoch.toSorted((a, b) => a - b), [...costs.keys()]);
  }
  assert.notDeepEqual(epochs[0], epochs[1]);
  assert.deepEqual(planSteps(costs, 1, training), steps);
  assert.notDeepEqual(planSteps(costs, 2, training), steps);
});

Deno.test("a step holds at most batch_tokens, and a longer row alone", () => {
  const costs = [60, 60, 150, 30];
  const steps = planSteps(costs, 3, { ...training, epochs: 1 });
  for (const step of steps) {
    const tokens = step.reduce((sum, row) => sum + costs[row]!, 0);
    assert.ok(tokens <= 100 || step.length === 1);
  }
  assert.deepEqual(steps.flat().toSorted(), [0, 1, 2, 3]);
});

Deno.test("without batch_tokens a step holds four rows of ctx tokens", () => {
  const steps = planSteps(Array.from({ length: 12 }, () => 64), 1, { epochs: 1, ctx: 64 });
  assert.deepEqual(steps.map((step) => step.length), [4, 4, 4]);
});

Deno.test("updates end the plan before the epochs do", () => {
  const costs = Array.from({ length: 10 }, () => 100);
  assert.equal(planSteps(costs, 1, { ...training, updates: 13 }).length, 13);
});
