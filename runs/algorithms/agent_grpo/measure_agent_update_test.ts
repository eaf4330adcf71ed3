import assert from "node:assert/strict";
import { ManualClock } from "../../../core/clock_fake.ts";
import type { EngineMethods } from "../../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../../trainer/engine/scripted_engine_fake.ts";
import { testConfig } from "../../config_testing.ts";
import { loadRequest, policySource } from "../../session/session.ts";
import { POLICY } from "../algorithm.ts";
import type { Measurement } from "../measured_update.ts";
import { agentGrpo } from "./definition.ts";

Deno.test("an update takes its prompts, its decode steps for each wave, and its passes over all samples", async () => {
  const config = testConfig("/nowhere"), clock = new ManualClock();
  Object.assign(config.agent!, {
    ...{ scenarios_per_update: 2, group_size: 4, max_turns: 3, max_new_tokens_per_turn: 64 },
    ...{ max_trajectory_tokens: 256, concurrent_rollouts: 4 },
    ...{ epochs_per_update: 2, kl_coefficient: 0.1, max_update_kl: 0.1, old_logprobs: "rescored" },
  });
  config.training.micro_batch_tokens = 448;
  const { client: engine } = new ScriptedEngine(), rates: number[] = [];
  await engine.call("load", loadRequest(config, agentGrpo.sequences(config), agentGrpo.training(config)));
  await engine.call("adapter_open", { adapter: POLICY, source: policySource(config) });
  const call = engine.call.bind(engine);
  let open = 0;
  engine.call = async (method, request, ...rest) => {
    const { max_tokens, optimizer } = request as Partial<
      EngineMethods["sequence_generate"]["request"] & EngineMethods["train_step"]["request"]
    >;
    // A millisecond for each token of each sequence.
    const ms = { sequence_open: 10, sequence_generate: max_tokens, train_step: 1000, score: 300 };
    await clock.advance(ms[method as keyof typeof ms] ?? 0);
    open += method === "sequence_open" ? 1 : method === "sequence_close" ? -1 : 0;
    if (optimizer) rates.push(optimizer.learning_rate);
    return await call(method, request, ...rest);
  };
  // It runs no update of the algorithm: that would use tools.
  const algorithm = null as unknown as Measurement["algorithm"];
  const { signal } = new AbortController(),
    measurement = { engine, algorithm, clock, vocabulary: 64, signal };
  const { seconds, tokens } = await agentGrpo.measureUpdate(config, measurement);
  // 192 tokens are written after 64 others. 4 sequences of 160 tokens open in 44 ms with their first token each, so the
  // 2 prompts of 64 take 2 · 64 · 44/640 = 8.8 ms. 16 decode steps of 4 rows take 64 ms: 8 attempts need 2 · 192 of them.
  const rollouts = (8.8 + 2 * 192 * 64 / 16) / 1000;
  // A micro-batch of 448 tokens has 2 members; 2 groups of 64 + 4 · 192 tokens are 2 · 832/448 of it. Two epochs, and
  // four passes that score: the old policy, the reference, and two for the bound.
  const training = 2 * 832 / 448 * (2 * 1 + 4 * 0.3);
  assert.ok(Math.abs(seconds - rollouts - training) < 1e-9, `${seconds} is ${rollouts} + ${training}`);
  assert.equal(tokens, 2 * 4 * 256);
  assert.equal(open, 0);
  assert.deepEqual(rates, [0, 0]);
});
