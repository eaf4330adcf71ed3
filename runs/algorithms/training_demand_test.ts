import assert from "node:assert/strict";
import { testConfig } from "../config_testing.ts";
import { agentGrpo } from "./agent_grpo/definition.ts";
import { preference } from "./preference/definition.ts";
import { sft } from "./sft/definition.ts";

Deno.test("an update of groups trains at most all members' tokens, and keeps a copy if it is bounded", () => {
  const config = testConfig("/nowhere"), agent = config.agent!;
  const of = (changes: Partial<typeof agent>) =>
    agentGrpo.training({ ...config, agent: { ...agent, ...changes } });
  // 2 scenarios, 4 members, 64 tokens in each turn, at most 256 in total.
  assert.deepEqual(of({ max_turns: 3, max_update_kl: 0 }), {
    ...{ targets: 2 * 4 * 3 * 64, divergence: false, keeps_state: false, adapters: 0 },
  });
  for (const more of [{ epochs_per_update: 2 }, { optimizer_steps_per_update: 2 }]) {
    assert.ok(of({ max_update_kl: 0, ...more }).keeps_state, "it takes several steps");
  }
  assert.equal(of({ max_turns: 9 }).targets, 2 * 4 * 256);
  assert.deepEqual(of({ max_turns: 3, max_update_kl: 0.1 }), {
    ...{ targets: 2 * 4 * 3 * 64, divergence: true, keeps_state: true, adapters: 1 },
  });
  const bound = { ...agent, max_update_kl: 0.1, kl_coefficient: 1, kl_reference: "init_adapter" as const };
  const lora = { ...config.lora, init_adapter: "a.gguf" };
  assert.equal(agentGrpo.training({ ...config, lora, agent: bound }).adapters, 2, "and the reference");
});

Deno.test("a step of rows trains at most its tokens or one row, and an evaluation scores 16,384 at once", () => {
  const config = testConfig("/nowhere");
  const targets = (training: Partial<typeof config.training>, evaluation?: typeof config.evaluation) => {
    const { evaluation: _, ...rest } = config;
    return sft.training({
      ...{ ...rest, training: { ...config.training, ...training } },
      ...(evaluation && { evaluation }),
    }).targets;
  };
  assert.equal(targets({ ctx: 100 }), 400);
  assert.equal(targets({ ctx: 100, batch_tokens: 300 }), 300);
  assert.equal(targets({ ctx: 100, batch_tokens: 60 }), 100);
  const evaluation = testConfig("/nowhere", '[evaluation]\ndata = "x.jsonl"').evaluation!;
  assert.equal(targets({ ctx: 100 }, evaluation), 16_384);
  assert.equal(targets({ ctx: 20_000, batch_tokens: 60 }, evaluation), 20_000);
});

Deno.test("a step of pairs trains at most its tokens or one pair, and keeps the initial policy", () => {
  const config = testConfig("/nowhere"),
    training = {
      ...{ ...config.training, ctx: 100, batch_tokens: 60 },
      micro_batch_tokens: 210,
    };
  const pairs = { data: "", beta: 0.1, gamma: 1, lambda: 0.1 };
  const of = (loss: "dpo" | "orpo", init_adapter?: string) => {
    const { evaluation: _, ...rest } = config;
    return preference.training({
      ...rest,
      run: { ...config.run, algorithm: "preference" },
      training,
      preference: { ...pairs, loss },
      lora: { ...config.lora, ...(init_adapter !== undefined && { init_adapter }) },
    });
  };
  assert.deepEqual(of("dpo"), { targets: 210, divergence: false, keeps_state: false, adapters: 0 });
  assert.equal(of("dpo", "a.gguf").adapters, 1);
  assert.equal(of("orpo", "a.gguf").adapters, 0);
});
