import assert from "node:assert/strict";
import type { Group } from "../agent/rollout/group.ts";
import { evaluationOf, passRate } from "./evaluate.ts";

const outcome = (passes: number, attempts: number) => ({
  scenario: "s",
  attempts,
  passes,
  rewards: [],
  stop_reasons: [],
});

const group = (scenario: string, rewards: (number | null)[]): Group => ({
  scenario,
  members: rewards.map((total_reward) => ({
    total_reward,
    stop_reason: total_reward === null ? "max_turns" : "submitted",
    step_rewards: [],
    deterministic: total_reward !== null,
  })),
} as unknown as Group);

Deno.test("one attempt a scenario gets Wilson's interval", () => {
  // 81 of 263: Newcombe 1998, table I, method 3.
  const rate = passRate(Array.from({ length: 263 }, (_, i) => outcome(i < 81 ? 1 : 0, 1)), 1);
  assert.equal(rate.rate, 81 / 263);
  assert.ok(Math.abs(rate.low - 0.2553) < 5e-5 && Math.abs(rate.high - 0.3662) < 5e-5);
});

Deno.test("several attempts get a bootstrap over scenarios, and every scenario weighs the same", () => {
  const rate = passRate([outcome(1, 2), outcome(3, 4), outcome(1, 4)], 1);
  assert.equal(rate.rate, 0.5);
  assert.ok(rate.low >= 0.25 && rate.high <= 0.75 && rate.low < rate.high);
});

Deno.test("outcomes by hand", () => {
  const result = evaluationOf([group("a", [1, 0]), group("b", [0.5, null])], 1);
  assert.equal(result.pass_rate!.rate, 0.5);
  assert.equal(result.reward_mean, (0.5 + 0.25) / 2);
  assert.equal(result.deterministic, false);
  assert.deepEqual(result.scenarios, [
    { scenario: "a", attempts: 2, passes: 1, rewards: [1, 0], stop_reasons: ["submitted", "submitted"] },
    { scenario: "b", attempts: 2, passes: 1, rewards: [0.5, 0], stop_reasons: ["submitted", "max_turns"] },
  ]);
});
