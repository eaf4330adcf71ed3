import assert from "node:assert/strict";
import type { EngineMethod, EngineMethods, TrainingSample } from "../../../trainer/protocol/protocol.ts";
import { ScriptedEngine } from "../../../trainer/engine/scripted_engine_fake.ts";
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
const loss = {
  type: "policy",
  importance_sampling_level: "token",
  clip_low: 0.2,
  clip_high: 0.28,
  kl_coefficient: 0,
  normalizer: 5,
} as const;
const optimizer = {
  learning_rate: 1,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 0,
};

/** An engine whose policy takes one large step under a bound; `lie` replaces its measurements. */
async function bounded(max_update_kl: number, lie?: number) {
  const calls: EngineMethod[] = [];
  const { client } = new ScriptedEngine({ refuse: (method) => void calls.push(method) });
  await client.call("adapter_open", { adapter: "policy", source: { type: "init", lora, seed: 1 } });
  const score = async () => (await client.call("score", { adapter: "policy", samples })).logprobs;
  const engine = lie === undefined ? client : Object.assign(Object.create(client), {
    async call(method: EngineMethod, request: never) {
      const answer = await client.call(method, request);
      const { divergences } = answer as EngineMethods["divergence"]["answer"];
      return method === "divergence" ? { divergences: divergences.map((row) => row.fill(lie)) } : answer;
    },
  });
  const bound = new UpdateBound({ engine, adapter: "policy", max_update_kl });
  /** The mean over all positions of KL(from‖policy), in f64 from the answer's values. */
  const klFrom = async (from: string) => {
    const { divergences } = await client.call("divergence", { adapter: "policy", from, samples });
    const all = divergences.flatMap((row) => [...row]);
    return all.reduce((sum, kl) => sum + kl, 0) / all.length;
  };
  const update = async (n = 1) => {
    await client.call("adapter_open", { adapter: `begun ${n}`, source: { type: "copy", adapter: "policy" } });
    const begun = await score();
    await bound.begin();
    await client.call("train_step", { adapter: "policy", samples, loss, optimizer });
    const whole = await score(), whole_kl = await klFrom(`begun ${n}`);
    const result = await bound.apply(samples, new AbortController().signal);
    return { begun, whole, whole_kl, after: await score(), kl: await klFrom(`begun ${n}`), result };
  };
  return { update, calls };
}

Deno.test("a step within the bound stays unchanged", async () => {
  const { update, calls } = await bounded(100);
  const { whole, whole_kl, after, result } = await update();
  assert.deepEqual(after, whole);
  assert.deepEqual(result, { kl: whole_kl, whole_kl, scale: 1 });
  assert.ok(!calls.includes("adapter_interpolate"));
});

Deno.test("a step beyond the bound is shortened along itself until it is within", async () => {
  for (const max_update_kl of [0.01, 1e-3, 1e-6]) {
    const { update } = await bounded(max_update_kl);
    for (let n = 1; n <= 2; n++) {
      const { whole_kl, kl, result } = await update(n);
      assert.deepEqual([result.whole_kl, result.kl], [whole_kl, kl]);
      assert.ok(whole_kl > max_update_kl && kl <= max_update_kl, JSON.stringify(result));
      assert.ok(kl > max_update_kl / 4, "no more is taken back than is needed");
      assert.ok(result.scale > 0 && result.scale < 1);
    }
  }
});

Deno.test("a policy that no shortening brings within the bound is restored", async () => {
  for (const lie of [3, NaN, Infinity]) {
    const { update, calls } = await bounded(1e-3, lie);
    const { begun, after, result } = await update();
    assert.deepEqual(after, begun);
    assert.deepEqual([result.kl, result.scale], [0, 0]);
    assert.equal(calls.filter((method) => method === "adapter_interpolate").length, MAX_TRIES + 1);
  }
});
