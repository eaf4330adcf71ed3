import assert from "node:assert/strict";
import type { EngineMethod, EngineMethods, TrainingSample } from "../trainer/engine/protocol.ts";
import { ScriptedEngine } from "../trainer/engine/scripted_engine.ts";
import { meanKl } from "./step_metrics.ts";
import { MAX_TRIES, UpdateBound } from "./update_bound.ts";

const lora = { rank: 8, alpha: 16, targets: ["q_proj" as const] };
const samples: TrainingSample[] = [[1, 2, 3, 4], [5, 6, 7]].map((tokens, trajectory) => ({
  tokens: Uint32Array.from(tokens),
  prefix_group: trajectory,
  prefix_length: 0,
  loss_mask: Uint8Array.from(tokens, (_, t) => t > 0 ? 1 : 0),
  trajectory,
  advantages: Float32Array.from(tokens, () => trajectory ? -1 : 1),
  old_logprobs: null,
  reference_logprobs: null,
  weights: null,
}));

/** An engine whose policy takes one large step under a bound; `score` may be told to lie. */
async function bounded(max_update_kl: number, lie?: (row: Float32Array) => Float32Array) {
  const calls: EngineMethod[] = [];
  const { client } = new ScriptedEngine({ refuse: (method) => void calls.push(method) });
  await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
  const score = async () => (await client.call("score", { adapter: "policy", samples })).logprobs;
  const engine = lie
    ? Object.assign(Object.create(client), {
      async call(method: EngineMethod, request: never) {
        const answer = await client.call(method, request);
        const { logprobs } = answer as EngineMethods["score"]["answer"];
        return method === "score" ? { logprobs: logprobs.map(lie) } : answer;
      },
    })
    : client;
  const bound = new UpdateBound({ engine, adapter: "policy", max_update_kl });
  const before = await score();
  const update = async () => {
    const begun = await score();
    await bound.begin();
    await client.call("train_step", {
      adapter: "policy",
      samples,
      loss: {
        type: "policy",
        importance_sampling_level: "token",
        clip_low: 0.2,
        clip_high: 0.28,
        kl_coefficient: 0,
        normalizer: 5,
      },
      optimizer: { learning_rate: 1, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0, max_grad_norm: 0 },
    });
    const whole = await score();
    const result = await bound.apply(samples, begun);
    return { begun, whole, after: await score(), result };
  };
  return { update, before, calls };
}

Deno.test("a step within the bound is left alone, at the cost of one forward pass", async () => {
  const { update, calls } = await bounded(100);
  const { begun, whole, after, result } = await update();
  assert.deepEqual(after, whole);
  assert.deepEqual(result, { kl: meanKl(begun, whole), whole_kl: meanKl(begun, whole), scale: 1 });
  assert.ok(!calls.includes("adapter_interpolate"));
});

Deno.test("a step beyond the bound is shortened along itself until it is within", async () => {
  for (const max_update_kl of [0.1, 1e-3, 1e-6]) {
    const { update } = await bounded(max_update_kl);
    for (let n = 1; n <= 2; n++) {
      const { begun, whole, after, result } = await update();
      assert.equal(result.whole_kl, meanKl(begun, whole));
      assert.equal(result.kl, meanKl(begun, after));
      assert.ok(result.whole_kl > max_update_kl && result.kl <= max_update_kl, JSON.stringify(result));
      assert.ok(result.kl > max_update_kl / 4, "no more is taken back than is needed");
      assert.ok(result.scale > 0 && result.scale < 1);
    }
  }
});

Deno.test("a policy that no shortening brings back is what it was before", async () => {
  for (const lie of [(row: Float32Array) => row.map((lp) => lp - 3), (row: Float32Array) => row.fill(NaN)]) {
    const { update, calls } = await bounded(1e-3, lie);
    const { begun, after, result } = await update();
    assert.deepEqual(after, begun);
    assert.equal(result.kl, 0);
    assert.equal(result.scale, 0);
    assert.equal(calls.filter((method) => method === "adapter_interpolate").length, MAX_TRIES + 1);
  }
});
