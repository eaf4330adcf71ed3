/** Weights in parts, for a device with a small binding limit: the bits of undivided ones. */

import { deepEqual, equal, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { Rng, rngKey } from "../../core/random.ts";
import type { Gpu } from "../../kernels/device.ts";
import { gpuTest, limitedAllocator } from "../../kernels/gpu_testing.ts";
import { Allocator } from "../../kernels/tensor.ts";
import { PART_ROWS, weightParts } from "../../kernels/weights/weight.ts";
import { createParts } from "../../trainer/engine/engine_parts.ts";
import { type GgufFile, openGguf } from "../../trainer/formats/gguf.ts";
import { adapterLayout, DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { fillModel } from "../../trainer/model/load_model.ts";
import type { Model } from "../../trainer/model/transformer.ts";
import type { EngineSizes } from "../../trainer/protocol/protocol.ts";
import { Batcher } from "../../trainer/sampler/batcher.ts";
import type { Sampler } from "../../trainer/sampler/sampler.ts";
import { fixturePath } from "../fixture.ts";
import { relativeL2, sample } from "./golden.ts";

const SIZES: EngineSizes = {
  ...{ compute: "f32", kv: "f32", max_context: 64, max_sequences: 1, kv_tokens: 160 },
  ...{ micro_batch_tokens: 64, loss_chunk_rows: 64 },
};

const OPTIMIZER = {
  ...{ learning_rate: 1e-3, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
  ...{ weight_decay: 0, max_grad_norm: 1 },
};

const LENGTH = 50, PROMPT = 20, SAMPLED = 12;

interface Case {
  name: string;
  from: string;
  /** Bytes of a value in the widest plane of the embedding. */
  value_bytes: number;
  /** Whether projections of the layers are larger than a part of the embedding. */
  splits_layers: boolean;
  /** How far gradients may be off, relative to their length. */
  bound: number;
}

const CASES: Case[] = [
  {
    ...{ name: "llama in q8_0", from: "tinystories-656k-llama-q8_0.gguf", value_bytes: 1 },
    ...{ splits_layers: false, bound: 0 },
  },
  {
    ...{ name: "qwen3 in f16, layers too", from: "tiny-agent-f16.gguf", value_bytes: 2 },
    // What goes back through up_proj is added to what gate_proj left, part by part: other roundings of 6e-8 each.
    ...{ splits_layers: true, bound: 2e-6 },
  },
];

function randomAdapter(allocator: Allocator, model: Model): DeviceAdapter {
  const layout = adapterLayout(model.shape, { rank: 4, alpha: 8, targets: [...LORA_TARGETS] });
  const adapter = new DeviceAdapter(allocator, layout), rng = new Rng(rngKey(6, "values"));
  adapter.write(Float32Array.from({ length: layout.elements }, () => 0.1 * rng.normal()));
  return adapter;
}

async function sampleTokens(sampler: Sampler, adapter: DeviceAdapter, tokens: number[]) {
  const sampled: number[] = [], logprobs: number[] = [];
  const batcher = new Batcher(sampler, SIZES, {
    sampled: (_, block) => {
      sampled.push(...block.tokens);
      logprobs.push(...block.logprobs);
    },
    failed: (_, error) => {
      throw new Error(error.message);
    },
  });
  const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [1, 2] as const, mask: null };
  const sequence = batcher.open({ id: 1, adapter, parent: null, tokens });
  batcher.generate(sequence, { sequence: 1, max_tokens: SAMPLED, stop_tokens: [], sampling });
  while (await batcher.step());
  return { sampled, logprobs };
}

/** Samples, scores and takes a training step with a model whose weights are on this allocator. */
async function use(gpu: Gpu, weights: Allocator, { file, tokens }: { file: GgufFile; tokens: number[] }) {
  const model = await fillModel(gpu, weights, { file, options: SIZES }),
    allocator = new Allocator(gpu.device);
  try {
    const { trainer, sampler } = createParts(allocator, model, SIZES);
    const adapter = randomAdapter(allocator, model);
    const samples = [sample(tokens, 0), sample(tokens.toReversed(), 1)];
    const loss = { type: "sft", normalizer: 2 * LENGTH } as const;
    const { sampled, logprobs } = await sampleTokens(sampler, adapter, tokens.slice(0, PROMPT));
    const scores = await trainer.score(adapter, samples);
    const { samples: measures, ...step } = await trainer.step(adapter, samples, {
      loss,
      optimizer: OPTIMIZER,
    });
    const gradient = await trainer.readGradient(adapter);
    const [layer] = model.weights.layers;
    return {
      forward: { sampled, logprobs, scores, measures, loss: step.loss },
      gradient,
      parts: weightParts(model.weights.output).length,
      split: LORA_TARGETS.filter((target) => weightParts(layer!.linears[target]).length > 1),
    };
  } finally {
    model.recorder.destroy();
    allocator.destroy();
    weights.destroy();
  }
}

for (const { name, from, value_bytes, splits_layers, bound } of CASES) {
  gpuTest(
    `${name}: an embedding in three parts samples, scores and learns as one in a single part`,
    async (gpu) => {
      using file = await openGguf(await fixturePath(`models/${from}`));
      const [rows, width] = file.tensor("token_embd.weight").shape as [number, number];
      const part_rows = Math.ceil(rows / 3 / PART_ROWS) * PART_ROWS;
      // Tokens of every part, the first and the last of each among them.
      const edges = [0, 1, 2].flatMap((i) => [i * part_rows, Math.min((i + 1) * part_rows, rows) - 1]);
      const tokens = Array.from({ length: LENGTH }, (_, i) => edges[i] ?? (37 * i) % rows);
      const whole = await use(gpu, new Allocator(gpu.device), { file, tokens });
      const limited = limitedAllocator(gpu, part_rows * width * value_bytes);
      const found = await use(gpu, limited, { file, tokens });
      deepEqual([whole.parts, whole.split], [1, []]);
      deepEqual([found.parts, found.split.includes("up_proj")], [3, splits_layers]);
      equal(found.forward.sampled.length, SAMPLED);
      deepEqual(found.forward, whole.forward);
      ok(Math.hypot(...whole.gradient) > 0);
      const off = relativeL2(found.gradient, whole.gradient);
      ok(off <= bound, `gradients are off by a relative ${off}`);
      console.log(`${name}: gradients are off by a relative ${off.toExponential(1)}`);
    },
  );
}
