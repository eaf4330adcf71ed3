import assert from "node:assert/strict";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import {
  callText,
  rolloutGroups,
  testEnvironments,
  testRollout,
  testScenarios,
  turnTokens,
} from "../rollout/rollout_fake.ts";
import { summarizeEvaluation } from "./evaluate.ts";
import { chooseTranscripts } from "./transcript.ts";

const SAY = callText("say", { text: "hi" });

Deno.test("failures come first, and every scenario once before any twice", async () => {
  let attempt = 0;
  const rewards = [1, 0, 0, 0, 1, 1];
  const environment = testEnvironments({ grade: () => rewards[attempt++]! });
  const engine = new ScriptedEngine({
    script: ({ turn }) => turnTokens(turn === 0 ? SAY : callText("end")),
  });
  const scenarios = testScenarios("a", "b", "c");
  // One attempt at a time, so that each gets a known reward: a 1 0, b 0 0, c 1 1.
  const options = testRollout(engine.client, {
    environment,
    scenarios,
    group_size: 2,
    concurrent_rollouts: 1,
  });
  const groups = await Array.fromAsync(rolloutGroups(options));
  const { scenarios: outcomes } = summarizeEvaluation(groups);
  const chosen = chooseTranscripts(groups, outcomes, 5);
  const names = chosen.map(({ scenario, attempt, passed, reward }) => [scenario, attempt, passed, reward]);
  assert.deepEqual(names, [
    ["b", 1, false, 0],
    ["a", 2, false, 0],
    ["b", 2, false, 0],
    ["a", 1, true, 1],
    ["c", 1, true, 1],
  ]);
  const [{ prompt, turns, stop_reason, attempts }] = chosen as [typeof chosen[number]];
  assert.deepEqual([prompt, attempts, stop_reason], [[{ role: "user", content: "b" }], 2, "completed"]);
  assert.equal(turns.length, 2);
  assert.equal(turns[0]!.text, SAY);
  assert.deepEqual(turns[0]!.calls, [{ name: "say", arguments: { text: "hi" }, text: null, result: "ok" }]);
});
