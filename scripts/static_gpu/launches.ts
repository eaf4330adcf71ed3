/**
 * The dispatches of a decode step, a prefill and a training step. The program itself records them, on a device that only
 * counts, so grids and operands are the kernels' own.
 */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { assumedGpu } from "../../kernels/assumed_gpu.ts";
import { countingGpu } from "../../kernels/counting_gpu.ts";
import type { Gpu } from "../../kernels/device.ts";
import type { Grid, Kernel, Operands, Params } from "../../kernels/kernel.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import { Allocator, type Tensor, tensorBytes } from "../../kernels/tensor.ts";
import { prefillTokens } from "../../trainer/engine/engine_parts.ts";
import { openGgufHeader } from "../../trainer/formats/gguf.ts";
import { Trainer } from "../../trainer/learning/trainer.ts";
import { adapterLayout, DeviceAdapter } from "../../trainer/model/device_adapter.ts";
import { createModel } from "../../trainer/model/load_model.ts";
import type { Model } from "../../trainer/model/transformer.ts";
import { Batcher } from "../../trainer/sampler/batcher.ts";
import { Sampler } from "../../trainer/sampler/sampler.ts";
import { LORA, OPTIMIZER, sftSamples } from "../bench/step_sizes.ts";
import { type HeaderName, makeHeader } from "../make_header.ts";

/** A dispatch. */
export interface Launch {
  kernel: Kernel;
  params: Readonly<Record<string, number>>;
  operands: Readonly<Record<string, Tensor>>;
  grid: readonly [x: number, y: number, z: number];
}

/** Workgroups of a dispatch. */
export function workgroups({ grid: [x, y, z] }: Pick<Launch, "grid">): number {
  return x * y * z;
}

/** Keeps the dispatches instead of running them. All that is read back is 0. */
class LaunchRecorder extends Recorder {
  launches: Launch[] = [];

  override dispatch<K extends Kernel>(...given: [K, Params<K>, Operands<K>, Grid]): void {
    const [kernel, params, operands, grid] = given;
    const [x, y = 1, z = 1] = grid;
    if (x * y * z > 0) this.launches.push({ kernel, params, operands, grid: [x, y, z] });
  }

  override submit(): void {}

  override submitAndRead(tensors: readonly Tensor[]): Promise<ArrayBuffer[]> {
    return Promise.resolve(tensors.map(({ shape, dtype }) => new ArrayBuffer(tensorBytes(shape, dtype))));
  }

  override submitAndWait(): Promise<void> {
    return Promise.resolve();
  }
}

/** The longest sequence. */
const MAX_CONTEXT = 8192;
const LOSS_CHUNK_ROWS = 512;

/** A model without values, whose passes can be recorded. */
export interface CountedModel {
  model: Model & { recorder: LaunchRecorder };
  allocator: Allocator;
  adapter: DeviceAdapter;
}

/** A model of this size with an adapter, on the GPU that plans assume and, if any, with more features. */
export async function countedModel(
  name: HeaderName,
  compute: "f32" | "f16",
  features: readonly string[] = [],
): Promise<CountedModel> {
  const card = assumedGpu(), facts = { ...card.facts, features: [...card.facts.features, ...features] };
  const gpu = countingGpu({ ...card, facts }), made = await headerModel(gpu, name, compute);
  return { ...made, model: { ...made.model, recorder: new LaunchRecorder(gpu) } };
}

/** A model of this size with an adapter on a GPU, without values. */
export async function headerModel(
  gpu: Gpu,
  name: HeaderName,
  compute: "f32" | "f16",
): Promise<Omit<CountedModel, "model"> & { model: Model }> {
  const folder = await Deno.makeTempDir();
  try {
    await makeHeader(`${folder}/model.gguf`, name);
    using file = await openGgufHeader(`${folder}/model.gguf`);
    const allocator = new Allocator(gpu.device, { refuse: () => {} });
    const { model } = createModel(gpu, allocator, { file, options: { compute, max_context: MAX_CONTEXT } });
    return { model, allocator, adapter: new DeviceAdapter(allocator, adapterLayout(model.shape, LORA)) };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The dispatches of `body`. */
async function record(recorder: LaunchRecorder, body: () => unknown): Promise<Launch[]> {
  const launches: Launch[] = recorder.launches = [];
  await body();
  recorder.launches = [];
  return launches;
}

/** The dispatches of an optimiser step over one sequence of so many tokens, of which the last half is trained. */
export async function trainingLaunches(counted: CountedModel, tokens: number): Promise<Launch[]> {
  const { model, allocator, adapter } = counted, sizes = { sequences: 1, tokens: tokens + 1 };
  const trainer = new Trainer(allocator, { ...model, positions: tokens + 1 }, {
    ...{ micro_batch_tokens: tokens, loss_chunk_rows: LOSS_CHUNK_ROWS, kv: model.compute },
  });
  const loss = { type: "sft", normalizer: tokens / 2 } as const;
  const samples = sftSamples(sizes, model.shape.vocabulary);
  const launches = await record(
    model.recorder,
    () => trainer.step(adapter, samples, { loss, optimizer: OPTIMIZER }),
  );
  trainer.free();
  return launches;
}

/**
 * The dispatches of a prefill step over so many rows, and those of a decode step over so many sequences, of which `members`
 * at a time have the same prompt.
 */
export async function samplingLaunches(
  { model, allocator, adapter }: CountedModel,
  { sequences, prompt, members = 1 }: { sequences: number; prompt: number; members?: number },
): Promise<{ prefill: Launch[]; decode: Launch[] }> {
  const slot_pages = ceilDiv(prompt + 2, PAGE_TOKENS), { vocabulary } = model.shape;
  const sampler = new Sampler(allocator, model, {
    ...{ max_sequences: sequences, max_prefill: prefillTokens(model), slots: 2 * sequences, slot_pages },
    ...{ pages: sequences * slot_pages, kv: model.compute, block_steps: 1 },
  });
  sampler.reserve(adapter.layout.padded_rank);
  const batcher = new Batcher(sampler, { max_context: MAX_CONTEXT }, { sampled: () => {}, failed: () => {} });
  const opened = Array.from({ length: sequences }, (_, id) => {
    const first = Math.floor(id / members);
    const tokens = Array.from({ length: prompt }, (_, position) => (first + position) % vocabulary);
    return batcher.open({ id, adapter, parent: null, tokens });
  });
  const prefill = await record(model.recorder, () => batcher.step());
  while (await batcher.step());
  const sampleOne = () => {
    for (const [id, sequence] of opened.entries()) {
      const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key: [1, id] as const, mask: null };
      batcher.generate(sequence, { sequence: id, max_tokens: 1, stop_tokens: [], sampling });
    }
    return batcher.step();
  };
  // The first token is sampled after the prompt, the second one after a pass over the first.
  await sampleOne();
  const decode = await record(model.recorder, sampleOne);
  sampler.free();
  return { prefill, decode };
}
