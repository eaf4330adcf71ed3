import assert from "node:assert/strict";
import { testScenarios } from "../../../agent/rollout/rollout_fake.ts";
import { testGroup, type TestMember } from "../../../agent/rollout/group_testing.ts";
import type { Group } from "../../../agent/trajectory/group.ts";
import { evaluationMetrics } from "../../process/training_loop.ts";
import type { AgentHost, RolloutRequest } from "../../session/agent_host.ts";
import { passRate } from "../../record/pass_rate.ts";
import { evaluateScenarios, resultOfAttempts } from "./evaluate_scenarios.ts";

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

Deno.test("one attempt for each scenario gives Wilson's interval", () => {
  // 81 of 263: Newcombe 1998, table I, method 3.
  const rate = passRate(Array.from({ length: 263 }, (_, i) => outcome(i < 81 ? 1 : 0, 1)));
  assert.deepEqual([rate.rate, rate.n, rate.attempts], [81 / 263, 263, 263]);
  assert.ok(Math.abs(rate.low - 0.2553) < 5e-5 && Math.abs(rate.high - 0.3662) < 5e-5);
});

Deno.test("several attempts get an interval over scenarios, and every scenario weighs the same", () => {
  const rate = passRate([outcome(1, 2), outcome(3, 4), outcome(1, 4)]);
  assert.deepEqual([rate.rate, rate.n, rate.attempts], [0.5, 3, 10]);
  assert.ok(rate.low > 0 && rate.high < 1 && rate.low < 0.5 && rate.high > 0.5);
  const all = passRate([outcome(4, 4), outcome(4, 4), outcome(4, 4)]);
  // Three of three: Wilson's lower end is 3/(3 + z²).
  assert.ok(Math.abs(all.low - 3 / (3 + 1.959964 ** 2)) < 1e-6 && all.high === 1);
});

Deno.test("results computed by hand", () => {
  const result = resultOfAttempts([group("a", [1, 0]), group("b", [0.5, null])]);
  assert.equal(result.pass_rate!.rate, 0.5);
  assert.equal(result.reward_mean, (0.5 + 0.25) / 2);
  assert.deepEqual([result.deterministic, result.failed, result.failure], [false, {}, null]);
  assert.deepEqual(result.scenarios, [
    { scenario: "a", attempts: 2, passes: 1, rewards: [1, 0], stop_reasons: ["submitted", "submitted"] },
    { scenario: "b", attempts: 2, passes: 1, rewards: [0.5, 0], stop_reasons: ["submitted", "max_turns"] },
  ]);
});

Deno.test("failed attempts are counted by reason; an evaluation in which all failed is an error", () => {
  const members: TestMember[] = [{ terminal: 1 }, { stop_reason: "environment_failed", step_rewards: [] }];
  const result = resultOfAttempts([testGroup(members)]);
  assert.deepEqual([result.pass_rate!.rate, result.failed], [0.5, { environment_failed: 1 }]);
  assert.equal(evaluationMetrics(result)["eval/failed_fraction"], 0.5);
  assert.throws(
    () => resultOfAttempts([testGroup([members[1]!, members[1]!]), testGroup([members[1]!], 1)]),
    {
      code: "environment_failed",
      message: "Cannot evaluate: all 3 attempts failed (3 environment_failed). " +
        'First failure, at scenario "s0", of the tool: it broke',
    },
  );
  const long = testGroup([{ stop_reason: "max_trajectory_tokens", step_rewards: [] }]);
  long.members[0]!.failure = { boundary: "prompt", message: "it is long" };
  assert.throws(() => resultOfAttempts([long]), {
    code: "data_invalid",
    message: /all 1 attempts failed \(1 prompt_too_long\)/,
  });
});

Deno.test("an evaluation requests the configured attempts with the requested adapter", async () => {
  const requests: RolloutRequest[] = [];
  const agent = {
    async *rollout(request: RolloutRequest) {
      requests.push(request);
      yield 1;
      return await Promise.resolve(request.scenarios.map(({ id }) => group(id, [1])));
    },
  } as unknown as AgentHost;
  const scenarios = testScenarios("a", "b", "c", "d");
  const { signal } = new AbortController();
  const evaluation = { data: "", samples_per_scenario: 3, temperature: 0.7, seed: 11, min_delta: 0 };
  const asked = { agent, scenarios, adapter: "some", concurrent_rollouts: 5, signal };
  await evaluateScenarios({ ...asked, evaluation });
  assert.deepEqual(requests[0], {
    update: 0,
    scenarios,
    group_size: 3,
    concurrent_rollouts: 5,
    sampling: { domain: "evaluation", seed: 11, temperature: 0.7 },
    adapter: "some",
  });
  for (const [limit, max_examples, count] of [[1, 2, 1], [3, 2, 2], [9, 9, 4]] as const) {
    await evaluateScenarios({ ...asked, limit, evaluation: { ...evaluation, max_examples } });
    assert.deepEqual(requests.at(-1)!.scenarios, scenarios.slice(0, count));
  }
});
