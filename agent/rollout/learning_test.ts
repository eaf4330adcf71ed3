import { deepEqual, ok } from "node:assert/strict";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import type { Group } from "../trajectory/group.ts";
import { tokenRows } from "../trajectory/token_rows_testing.ts";
import { finishGroups } from "./finish_groups.ts";
import { rolloutGroups, testEnvironments, testRollout, testScenarios, TextChat } from "./rollout_fake.ts";
import { attachLogprobs, recordMeasures, samplerLogprobs, trainingSamples } from "./training_samples.ts";

const LOSS = {
  type: "policy",
  importance_sampling_level: "token",
  clip_low: 0.2,
  clip_high: 0.28,
  kl_coefficient: 0,
} as const;
const OPTIMIZER = {
  learning_rate: 0.3,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 1,
};

/** Every token ends the turn, so a turn is one token, whose text is the attempt. */
class OneToken extends TextChat {
  override readonly stop_tokens = Array.from({ length: 64 }, (_, i) => i);
}

Deno.test("rollouts, advantages and steps together raise the reward, and the measures are written back", async () => {
  const engine = new ScriptedEngine();
  const { client } = engine;
  const lora = { rank: 1, alpha: 1, targets: ["q_proj" as const] };
  await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
  const environment = testEnvironments({ grade: () => 0 });
  const means: number[] = [];
  let last: Group[] = [];
  for (let update = 1; update <= 12; update++) {
    const scenarios = testScenarios("a", "b");
    const options = testRollout(client, {
      update,
      scenarios,
      group_size: 16,
      environment,
      adapter: "policy",
      chat: new OneToken(),
    });
    const groups = await Array.fromAsync(rolloutGroups(options));
    // The first half of the alphabet is right: about every second attempt before training.
    for (const member of groups.flatMap(({ members }) => members)) {
      member.terminal_reward = member.total_reward = member.fragments[0]!.tokens.at(-1)! < 32 ? 1 : 0;
    }
    finishGroups(groups, { truncation: "drop", max_dropped_fraction: 0, advantage: "leave_one_out" });
    const batch = trainingSamples(groups, { ...options.settings, ...LOSS });
    const rewards = groups.flatMap(({ members }) => members.map(({ total_reward }) => total_reward!));
    means.push(rewards.reduce((a, b) => a + b) / rewards.length);
    if (batch.samples.length === 0) continue;
    attachLogprobs(batch, "old_logprobs", samplerLogprobs(batch, groups));
    const { samples } = await client.call("train_step", {
      adapter: "policy",
      samples: batch.samples,
      loss: { ...LOSS, normalizer: batch.normalizer },
      optimizer: OPTIMIZER,
    });
    recordMeasures(batch, groups, samples);
    last = groups;
  }
  ok(means[0]! < 0.75 && means.at(-1)! > 0.9, String(means));
  const rows = last.flatMap(({ members }) =>
    members.flatMap(({ fragments }) => fragments.flatMap(tokenRows))
  );
  const trained = rows.filter((row) => row.trained);
  ok(trained.length > 0);
  for (const { trainer_logprob, sampler_logprob, ratio, clipped } of trained) {
    ok(Math.abs(trainer_logprob! - sampler_logprob!) < 1e-5);
    ok(Math.abs(ratio! - 1) < 1e-5);
    deepEqual(clipped, 0);
  }
});
