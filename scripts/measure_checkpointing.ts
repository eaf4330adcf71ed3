/**
 * How much longer a training step takes with gradient checkpointing: steps with it and without it in turn, in one
 * process, on the same samples.
 *
 *   deno run -A scripts/measure_checkpointing.ts --model model.gguf [--tokens 512] [--pairs 12]
 */

import { parseArgs } from "node:util";
import { LORA_TARGETS } from "../core/lora_targets.ts";
import { openGpu } from "../kernels/device.ts";
import type { TrainingSample } from "../trainer/protocol/protocol.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import { Trainer } from "../trainer/learning/trainer.ts";
import { adapterLayout, DeviceAdapter, initialParameters } from "../trainer/model/device_adapter.ts";
import { loadModel } from "../trainer/model/load_model.ts";

const { values } = parseArgs({
  args: Deno.args,
  options: {
    model: { type: "string" },
    tokens: { type: "string", default: "512" },
    pairs: { type: "string", default: "12" },
  },
});
if (!values.model) {
  console.error(
    "Usage: deno run -A scripts/measure_checkpointing.ts --model <file> [--tokens 512] [--pairs 12]",
  );
  Deno.exit(2);
}

const OPTIMIZER = {
  ...{ learning_rate: 0, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
  ...{ weight_decay: 0, max_grad_norm: 1 },
};

const tokens = Number(values.tokens), pairs = Number(values.pairs);
const gpu = await openGpu({ device: "auto", webgpu: "auto" });
using file = await openGguf(values.model);
const { model, allocator } = await loadModel(gpu, file, { compute: "auto", max_context: tokens });
const layout = adapterLayout(model.shape, { rank: 8, alpha: 8, targets: [...LORA_TARGETS] });
const adapter = new DeviceAdapter(allocator, layout);
adapter.write(initialParameters(layout, 1));
const trainers = [false, true].map((gradient_checkpointing) =>
  new Trainer(allocator, model, { micro_batch_tokens: tokens, loss_chunk_rows: 256, gradient_checkpointing })
);

/** Learns from every token but the first. */
const sample: TrainingSample = {
  tokens: Uint32Array.from({ length: tokens }, (_, i) => (7 * i) % 300),
  ...{ prefix_group: 0, prefix_length: 0, trajectory: 0 },
  loss_mask: Uint8Array.from({ length: tokens }, (_, i) => Number(i > 0)),
  ...{ advantages: null, old_logprobs: null, reference_logprobs: null, weights: null },
};

async function seconds(trainer: Trainer): Promise<number> {
  const from = performance.now();
  await trainer.step(adapter, [sample], {
    loss: { type: "sft", normalizer: tokens - 1 },
    optimizer: OPTIMIZER,
  });
  return (performance.now() - from) / 1000;
}

// The first steps make buffers and compile kernels.
for (const trainer of trainers) await seconds(trainer);
const ratios: number[] = [], times: number[][] = [[], []];
for (let i = 0; i < pairs; i++) {
  // Every second pair the other way round, so that a machine that grows faster or slower favours neither.
  const order = i % 2 === 0 ? [0, 1] : [1, 0];
  for (const which of order) times[which]!.push(await seconds(trainers[which]!));
  ratios.push(times[1]![i]! / times[0]![i]!);
}
const sorted = (list: readonly number[]) => [...list].sort((a, b) => a - b);
const quantile = (list: readonly number[], share: number) =>
  sorted(list)[Math.floor(share * (list.length - 1))]!.toFixed(2);
const activations = trainers.map(({ allocator }) => (allocator.bytes.activations! / 2 ** 20).toFixed(1));
console.log(`${gpu.facts.name}: ${model.shape.layers.length} layers, ${tokens} tokens, ${pairs} pairs`);
console.log(`activations: ${activations[0]} MiB kept, ${activations[1]} MiB computed a second time`);
console.log(`a step takes ${quantile(times[0]!, 0.5)} s and ${quantile(times[1]!, 0.5)} s (medians)`);
const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => quantile(ratios, share));
console.log(`ratio: median ${middle}, half of the pairs from ${low} to ${high}`);
model.recorder.destroy();
allocator.destroy();
gpu.device.destroy();
