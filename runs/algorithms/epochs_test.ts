import assert from "node:assert/strict";
import { EpochSteps, type EpochStepsOptions } from "./epochs.ts";

const training = { epochs: 2, batch_tokens: 100, ctx: 64 };

const stepsOf = (costs: number[], seed: number, settings: EpochStepsOptions["training"] = training) =>
  new EpochSteps({ costs, seed, training: settings });

/** The first steps, or all. */
function listed(steps: EpochSteps, count = steps.count!): number[][] {
  const list: number[][] = [];
  for (let seen = 0; list.length < count; seen += list.at(-1)!.length) list.push(steps.after(seen));
  return list;
}

Deno.test("an epoch takes every row once, in an order of its own", () => {
  const costs = Array.from({ length: 50 }, () => 10);
  const steps = listed(stepsOf(costs, 1));
  assert.equal(steps.length, 10);
  assert.ok(steps.every((step) => step.length === 10));
  const epochs = [steps.slice(0, 5).flat(), steps.slice(5).flat()];
  for (const epoch of epochs) {
    assert.deepEqual(epoch.toSorted((a, b) => a - b), [...costs.keys()]);
  }
  assert.notDeepEqual(epochs[0], epochs[1]);
  assert.deepEqual(listed(stepsOf(costs, 1)), steps);
  assert.notDeepEqual(listed(stepsOf(costs, 2)), steps);
});

Deno.test("a step holds at most batch_tokens, and a longer row alone", () => {
  const costs = [60, 60, 150, 30];
  const steps = listed(stepsOf(costs, 3, { ...training, epochs: 1 }));
  for (const step of steps) {
    const tokens = step.reduce((sum, row) => sum + costs[row]!, 0);
    assert.ok(tokens <= 100 || step.length === 1);
  }
  assert.deepEqual(steps.flat().toSorted(), [0, 1, 2, 3]);
});

Deno.test("without batch_tokens a step holds four rows of ctx tokens", () => {
  const steps = listed(stepsOf(Array.from({ length: 12 }, () => 64), 1, { epochs: 1, ctx: 64 }));
  assert.deepEqual(steps.map((step) => step.length), [4, 4, 4]);
});

Deno.test("the number of steps is that of all epochs, or of the updates where these are fewer", () => {
  const costs = Array.from({ length: 10 }, () => 100), { batch_tokens, ctx } = training;
  const count = (ends: { epochs?: number; updates?: number }) =>
    stepsOf(costs, 1, { batch_tokens, ctx, ...ends }).count;
  assert.equal(count({ epochs: 2 }), 20);
  assert.equal(count({ epochs: 2, updates: 13 }), 13);
  assert.equal(count({ epochs: 2, updates: 21 }), 20);
  assert.equal(count({ updates: 1013 }), 1013);
  assert.equal(count({}), null);
});

Deno.test("without an end, epochs follow each other, and a resumed run finds its place", () => {
  const costs = Array.from({ length: 40 }, (_, row) => 10 + row), { batch_tokens, ctx } = training;
  const endless = stepsOf(costs, 4, { batch_tokens, ctx });
  const ended = listed(stepsOf(costs, 4, { ...training, epochs: 3 }));
  assert.deepEqual(listed(endless, ended.length), ended);
  let seen = 0;
  for (const step of ended) {
    assert.deepEqual(stepsOf(costs, 4, { batch_tokens, ctx }).after(seen), step);
    seen += step.length;
  }
  assert.equal(seen, 3 * 40);
  // Row 1 of a step is not where a step begins. No earlier epoch is made on the way to a late one.
  const late = 40 * 1e9;
  assert.ok(endless.after(late).length > 1);
  assert.throws(() => endless.after(late + 1), /a step begins after 40000000001 rows/);
});

Deno.test("the schedule tells the number of steps, and the mean of the first epoch's tokens", () => {
  const costs = Array.from({ length: 10 }, () => 50), tokens = costs.map((_, row) => row);
  const { batch_tokens, ctx } = training;
  const schedule = (ends: { epochs?: number; updates?: number }) =>
    stepsOf(costs, 1, { batch_tokens, ctx, ...ends }).schedule(tokens);
  // Five steps of two rows have 0 + 1 + … + 9 tokens.
  assert.deepEqual(schedule({ epochs: 2 }), { updates: 10, tokens_per_update: 9 });
  assert.deepEqual(schedule({}), { updates: null, tokens_per_update: 9 });
  const [first] = listed(stepsOf(costs, 1));
  assert.deepEqual(schedule({ updates: 1 }), { updates: 1, tokens_per_update: first![0]! + first![1]! });
});
