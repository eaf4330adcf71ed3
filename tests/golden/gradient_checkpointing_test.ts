/** Activations that are computed a second time: the gradients of those that are kept, in less memory. */

import { deepEqual, equal, ok } from "node:assert/strict";
import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { LossRequest, TrainingSample } from "../../trainer/protocol/protocol.ts";
import { Trainer } from "../../trainer/learning/trainer.ts";
import { adapterLayout, DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import type { ModelShape } from "../../trainer/model/model_shape.ts";
import { fixturePath } from "../fixture.ts";
import { withFolder } from "../folder.ts";
import { randomBiases, writeChanged } from "./changed_model.ts";
import { writeGemma2 } from "./gemma2_model.ts";
import { type LoadedParts, loadParts, readGoldenPolicy, sample, spreadOverMask } from "./golden.ts";

const RANK = 4, LENGTHS = [50, 70, 60, 90];
/** Samples of {@link LENGTHS} make several micro-batches, each of them of several chunks of the loss. */
const SIZES = { micro_batch_tokens: 130, loss_chunk_rows: 64 };

const OPTIMIZER = {
  ...{ learning_rate: 1e-2, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
  ...{ weight_decay: 0, max_grad_norm: 1 },
};

interface Case {
  name: string;
  from: string;
  /** Type to which keys and values are rounded. */
  kv: "f32" | "f16";
  /** Writes the model; left out: the fixture as it is. */
  write?: (from: string, to: string) => Promise<void>;
  loss: LossRequest;
  /** Samples of so many tokens where left out. */
  samples?: () => Promise<TrainingSample[]>;
}

const SFT: LossRequest = { type: "sft", normalizer: 100 };
const POLICY: LossRequest = {
  ...{ type: "policy", importance_sampling_level: "token", clip_low: 0.2, clip_high: 0.28 },
  ...{ kl_coefficient: 0.1, normalizer: 100 },
};

const CASES: Case[] = [
  {
    ...{ name: "qwen3, a policy loss over shared prompts", from: "tiny-agent-f16.gguf", kv: "f16" },
    ...{ loss: POLICY, samples: policySamples },
  },
  { name: "llama, sft", from: "tinystories-656k-llama-q4_0.gguf", kv: "f32", loss: SFT },
  {
    ...{ name: "qwen2 with biases, sft", from: "tinystories-656k-qwen2-f16.gguf", kv: "f32", loss: SFT },
    write: async (from, to) => await writeChanged(from, to, await randomBiases(from, 1)),
  },
  {
    ...{ name: "gemma2 with norms after blocks, sft", from: "stories260k.gguf", kv: "f32", loss: SFT },
    write: writeGemma2,
  },
];

/** Those of the goldens, of which many begin alike. */
async function policySamples(): Promise<TrainingSample[]> {
  const golden = await readGoldenPolicy(), { old_logprobs } = golden.cases.token!;
  return golden.samples.map(
    ({ tokens, loss_mask, prefix_group, prefix_length, trajectory, ...values }, i) => {
      const spread = (numbers: readonly number[]) => spreadOverMask(loss_mask, numbers);
      return sample(tokens, trajectory, {
        ...{ loss_mask, prefix_group, prefix_length, advantages: spread(values.advantages) },
        old_logprobs: spread(old_logprobs[i]!),
        reference_logprobs: spread(values.reference_logprobs),
      });
    },
  );
}

function plainSamples(): TrainingSample[] {
  return LENGTHS.map((length, i) =>
    sample(Array.from({ length }, (_, t) => (7 * t + 31 * i + t * t) % 300 + 3), i)
  );
}

/** An adapter of all targets with values of which every gradient depends on all of the layer's activations. */
function randomAdapter({ allocator, model }: LoadedParts): DeviceAdapter {
  const layout = adapterLayout(model.shape, { rank: RANK, alpha: 8, targets: [...LORA_TARGETS] });
  const adapter = new DeviceAdapter(allocator, layout), rng = new Rng(rngKey(6, "values"));
  adapter.write(Float32Array.from({ length: layout.elements }, () => 0.1 * rng.normal()));
  return adapter;
}

/** Two steps; the bits of all that they leave and measure, and the bytes that the trainer's activations took. */
async function twoSteps(
  parts: LoadedParts,
  { kv, loss }: Case,
  { samples, gradient_checkpointing }: { samples: TrainingSample[]; gradient_checkpointing: boolean },
) {
  const { model, allocator } = parts, adapter = randomAdapter(parts);
  const trainer = new Trainer(allocator, model, { ...SIZES, kv, gradient_checkpointing });
  try {
    const gradients: Uint32Array[] = [], results = [];
    for (let step = 0; step < 2; step++) {
      results.push(await trainer.step(adapter, samples, { loss, optimizer: OPTIMIZER }));
      gradients.push(new Uint32Array((await trainer.readGradient(adapter)).buffer));
    }
    const { m, v } = adapter.training;
    const left: Uint32Array[] = [];
    for (const array of [adapter.params, m, v]) {
      left.push(new Uint32Array((await array.read(model.recorder)).buffer));
    }
    const scores = await trainer.score(adapter, samples);
    const bits = { gradients, left, scores, results };
    return { bits, bytes: trainer.allocator.bytes.activations! };
  } finally {
    trainer.free();
    adapter.free();
  }
}

/** The number of values that a layer keeps for a row: the elements of its `LayerActivations`. */
function layerNumbers(
  { width: C, heads: H, kv_heads: K, head_width: D, feed_forward: F, layers }: ModelShape,
) {
  const { qk_norm, norms_after } = layers[0]!, attention = H * D + K * D;
  // q, k, v and v's like o; both inputs, and what lies between the blocks; 1 / rms and lse; gate, up and h; A·x.
  return attention + (qk_norm ? attention + H + K : 0) + K * D + H * D + 3 * C + 2 + H + 3 * F + 7 * RANK +
    (norms_after ? 2 * C + 2 : 0);
}

for (const given of CASES) {
  const { name, from, write } = given;
  gpuTest(
    `${name}: gradients without kept activations have the same bits, in less memory`,
    (gpu) =>
      withFolder(async (folder) => {
        const fixture = await fixturePath(`models/${from}`), path = write ? `${folder}/model.gguf` : fixture;
        await write?.(fixture, path);
        const parts = await loadParts(gpu, path, SIZES);
        try {
          const samples = await given.samples?.() ?? plainSamples();
          const kept = await twoSteps(parts, given, { samples, gradient_checkpointing: false });
          const computed = await twoSteps(parts, given, { samples, gradient_checkpointing: true });
          ok(kept.bits.results[0]!.micro_batches > 1, "several micro-batches");
          ok(kept.bits.gradients.every((bits) => bits.some((bit) => bit !== 0)), "gradients are not zero");
          deepEqual(computed.bits, kept.bits);
          // All layers but one; rows are a multiple of the number of bytes that a number takes for every row.
          const { shape } = parts.model, layer_bytes = 4 * layerNumbers(shape);
          const rows = (kept.bytes - computed.bytes) / ((shape.layers.length - 1) * layer_bytes);
          equal(rows, Math.ceil(rows), "what is saved are all layers' activations but one's");
          ok(rows >= SIZES.micro_batch_tokens && rows < 2 * SIZES.micro_batch_tokens, `of ${rows} rows`);
        } finally {
          parts.close();
        }
      }),
  );
}
