import { deepEqual, equal, notDeepEqual } from "node:assert/strict";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import {
  callText,
  rolloutGroups,
  testEnvironments,
  testRollout,
  testScenarios,
  turnTokens,
} from "../rollout/rollout_fake.ts";
import { testGroup } from "../rollout/group_testing.ts";
import { summarizeEvaluation } from "./evaluate.ts";

Deno.test("every attempt counts, whatever its result", () => {
  const groups = [
    testGroup([{ terminal: 1 }, { terminal: 0 }, { stop_reason: "max_turns", step_rewards: [0.5] }, {
      stop_reason: "tool_failed",
    }]),
    testGroup([{ terminal: 2 }, { terminal: 2 }, { terminal: 2 }, { terminal: 0 }], 1),
  ];
  groups[1]!.members[0]!.deterministic = false;
  deepEqual(summarizeEvaluation(groups), {
    scenarios: [
      {
        scenario: "s0",
        attempts: 4,
        passes: 1,
        rewards: [1, 0, 0.5, null],
        stop_reasons: ["completed", "completed", "max_turns", "tool_failed"],
      },
      {
        scenario: "s1",
        attempts: 4,
        passes: 3,
        rewards: [2, 2, 2, 0],
        stop_reasons: ["completed", "completed", "completed", "completed"],
      },
    ],
    pass_rate: (1 / 4 + 3 / 4) / 2,
    reward_mean: (1.5 / 4 + 6 / 4) / 2,
    failed: { tool_failed: 1 },
    failure: { scenario: "s0", boundary: "tool", message: "it broke" },
    failures: { tool_failed: { scenario: "s0", boundary: "tool", message: "it broke" } },
    deterministic: false,
  });
  deepEqual(summarizeEvaluation([]), {
    scenarios: [],
    pass_rate: 0,
    reward_mean: 0,
    failed: {},
    failure: null,
    failures: {},
    deterministic: true,
  });
});

Deno.test("attempts share their prompt, get the same samples at every update, and greedy ones are equal", async () => {
  const tokensAt = async (update: number, temperature: number, seed = 1) => {
    const engine = new ScriptedEngine({
      script: ({ turn }) => turn === 0 ? undefined : turnTokens(callText("end")),
    });
    const rollout = testRollout(engine.client, {
      group_size: 3,
      sampling: { domain: "evaluation", seed, temperature },
      update,
      scenarios: testScenarios("a", "b"),
      environment: testEnvironments(),
      settings: { max_new_tokens_per_turn: 12 },
    });
    const groups = await Array.fromAsync(rolloutGroups(rollout));
    const { scenarios } = summarizeEvaluation(groups);
    const { prefill_tokens } = await engine.client.call("counters", null);
    equal(prefill_tokens, 2 * groups[0]!.prompt_tokens.length);
    deepEqual(scenarios.map(({ scenario, attempts }) => [scenario, attempts]), [["a", 3], ["b", 3]]);
    return groups.map(({ members }) => members.map(({ fragments }) => fragments[0]!.tokens));
  };
  const sampled = await tokensAt(1, 1);
  deepEqual(await tokensAt(9, 1), sampled);
  notDeepEqual(await tokensAt(1, 1, 2), sampled);
  equal(new Set(sampled[0]!.map(String)).size, 3);
  const greedy = await tokensAt(1, 0);
  equal(new Set(greedy[0]!.map(String)).size, 1);
});
