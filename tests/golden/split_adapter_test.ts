/** Adapters in parts, for a device with a small binding limit: the bits of undivided ones, up to the order of the norm's sum. */

import { deepEqual, equal, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest, limitedAllocator } from "../../kernels/gpu_testing.ts";
import { Allocator } from "../../kernels/tensor.ts";
import { Adapters, CHECKPOINT_OPTIMIZER } from "../../trainer/engine/adapters.ts";
import { createParts } from "../../trainer/engine/engine_parts.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { loadModel } from "../../trainer/model/load_model.ts";
import { CHECKPOINT_ADAPTER, type EngineSizes } from "../../trainer/protocol/protocol.ts";
import { fixturePath } from "../fixture.ts";
import { withFolder } from "../folder.ts";
import { relativeL2, sample } from "./golden.ts";

const SIZES: EngineSizes = {
  ...{ compute: "f32", kv: "f32", max_context: 64, max_sequences: 1, kv_tokens: 64 },
  ...{ micro_batch_tokens: 64, loss_chunk_rows: 64 },
};

const LORA = { rank: 4, alpha: 8, targets: [...LORA_TARGETS] };

const TOKENS = Array.from({ length: 50 }, (_, i) => (37 * i) % 500 + 1);

/** Room for a few of the smaller matrices; the adapter takes more than three times as much. */
const LIMIT_BYTES = 16_384;

/** What is left of two steps, a return half the way and a checkpoint that is loaded again. */
async function use(
  gpu: Gpu,
  of: Allocator,
  { path, max_grad_norm }: { path: string; max_grad_norm: number },
) {
  using file = await openGguf(path);
  const { model, allocator, name } = await loadModel(gpu, file, SIZES);
  try {
    const { trainer } = createParts(allocator, model, SIZES), { recorder } = model;
    const adapters = new Adapters(of, model, { base_model: name });
    await adapters.open("policy", { type: "init", lora: LORA, seed: 1 });
    await adapters.open("origin", { type: "copy", adapter: "policy" });
    const policy = adapters.get("policy"), samples = [sample(TOKENS, 0), sample(TOKENS.toReversed(), 1)];
    const optimizer = {
      ...{ learning_rate: 1e-2, beta1: 0.9, beta2: 0.999, eps: 1e-8, weight_decay: 0.1, max_grad_norm },
    };
    const results = [], loss = { type: "sft", normalizer: 100 } as const;
    for (let step = 0; step < 2; step++) {
      results.push(await trainer.step(policy, samples, { loss, optimizer }));
    }
    const gradient = await trainer.readGradient(policy);
    adapters.interpolate("policy", "origin", 0.5);
    const divergence = await trainer.divergence({ p: adapters.get("origin"), q: policy }, samples);
    const files: Uint8Array[] = [];
    await withFolder(async (folder) => {
      await adapters.saveCheckpoint("policy", folder);
      await adapters.loadCheckpoint("policy", folder);
      for (const file of [CHECKPOINT_ADAPTER, CHECKPOINT_OPTIMIZER]) {
        files.push(await Deno.readFile(`${folder}/${file}`));
      }
    });
    const loaded = adapters.get("policy");
    const arrays: Float32Array[] = [];
    for (const array of [loaded.params, loaded.training.m, loaded.training.v]) {
      arrays.push(await array.read(recorder));
    }
    return { results, gradient, divergence, files, arrays, parts: policy.params.parts.length };
  } finally {
    model.recorder.destroy();
    allocator.destroy();
    of.destroy();
  }
}

gpuTest("an adapter in parts learns, moves, measures and is stored like any other", async (gpu) => {
  const path = await fixturePath("models/tinystories-656k-qwen2-f16.gguf");
  const both = async (max_grad_norm: number) => ({
    whole: await use(gpu, new Allocator(gpu.device), { path, max_grad_norm }),
    split: await use(gpu, limitedAllocator(gpu, LIMIT_BYTES), { path, max_grad_norm }),
  });
  const { whole, split } = await both(0);
  ok(split.parts > 3 && whole.parts === 1, `${split.parts} parts`);
  ok(whole.divergence.every((row) => row.every((kl) => kl > 0)), "the steps changed the policy");
  // Only the norm is summed in another order; without clipping nothing depends on it.
  const { results: expected, parts: _, ...bits } = whole, { results, parts: __, ...found } = split;
  deepEqual(found, bits);
  for (const [i, { grad_norm, ...result }] of results.entries()) {
    const { grad_norm: norm, ...rest } = expected[i]!;
    deepEqual(result, rest);
    ok(Math.abs(grad_norm / norm - 1) < 1e-6, `norms ${grad_norm} and ${norm}`);
  }
  // With clipping every gradient is scaled by a factor that is off as much as the norm.
  const clipped = await both(expected[0]!.grad_norm / 10);
  equal(clipped.split.results.every(({ skipped }) => !skipped), true);
  for (const i of [0, 1, 2]) {
    const off = relativeL2(clipped.split.arrays[i]!, clipped.whole.arrays[i]!);
    ok(off <= 1e-5, `array ${i} is off by a relative ${off}`);
  }
  ok(relativeL2(clipped.whole.arrays[1]!, whole.arrays[1]!) > 0.1, "the gradient was clipped");
});
