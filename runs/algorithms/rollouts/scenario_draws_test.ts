import assert from "node:assert/strict";
import { ScenarioDraws } from "./scenario_draws.ts";

const options = { count: 10, per_update: 4, seed: 3 };

Deno.test("each scenario comes once an epoch and never twice in an update", () => {
  const draws = new ScenarioDraws(options, 0);
  const updates = Array.from({ length: 50 }, () => draws.next());
  for (const update of updates) assert.equal(new Set(update).size, 4);
  const counts = new Map<number, number>();
  for (const i of updates.flat()) counts.set(i, (counts.get(i) ?? 0) + 1);
  assert.deepEqual([...counts.values()], Array.from({ length: 10 }, () => 20));
  const first = updates.flat().slice(0, 10);
  assert.equal(new Set(first).size, 10);
});

Deno.test("scenarios continue where an earlier process stopped", () => {
  const whole = new ScenarioDraws(options, 0);
  const updates = Array.from({ length: 30 }, () => whole.next());
  for (let done = 0; done < 30; done++) {
    const resumed = new ScenarioDraws(options, done * 4);
    assert.equal(resumed.examples_seen, done * 4);
    assert.deepEqual(resumed.next(), updates[done]);
  }
});

Deno.test("epochs and seeds have orders of their own", () => {
  const whole = { count: 20, per_update: 20, seed: 1 };
  const draws = new ScenarioDraws(whole, 0);
  const [a, b] = [draws.next(), draws.next()];
  assert.notDeepEqual(a, b);
  assert.notDeepEqual(new ScenarioDraws({ ...whole, seed: 2 }, 0).next(), a);
});

Deno.test("an update that takes every scenario", () => {
  const draws = new ScenarioDraws({ count: 3, per_update: 3, seed: 1 }, 0);
  for (let i = 0; i < 9; i++) assert.deepEqual(draws.next().toSorted(), [0, 1, 2]);
});
