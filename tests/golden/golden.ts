/** The tiny model's golden values (PyTorch, float64) as types, and helpers for tests that compare with them. */

import { deepEqual, equal, ok } from "node:assert/strict";
import { type Gpu, openGpu } from "../../kernels/device.ts";
import type { DeviceRequest } from "../../core/device.ts";
import type { PreferenceLoss } from "../../core/preference_loss.ts";
import type { Allocator } from "../../kernels/tensor.ts";
import { EngineClient } from "../../trainer/protocol/client.ts";
import { Engine } from "../../trainer/engine/engine.ts";
import type { LoadRequest, TrainingSample } from "../../trainer/protocol/protocol.ts";
import type { TestedEngine } from "../../trainer/engine/engine_testing.ts";
import { readAdapter } from "../../trainer/formats/adapter.ts";
import { openGguf } from "../../trainer/formats/gguf.ts";
import { Trainer } from "../../trainer/learning/trainer.ts";
import { adapterLayout, DeviceAdapter, packAdapter } from "../../trainer/model/device_adapter.ts";
import { loadModel } from "../../trainer/model/load_model.ts";
import type { Model } from "../../trainer/model/transformer.ts";
import { fixturePath, readFixtureJson } from "../fixture.ts";

export const KINDS = ["f16", "q8_0"] as const;
export type Kind = typeof KINDS[number];

export const GOLDEN_ADAPTER = "models/tiny-agent/golden-lora/golden-lora.gguf";

/**
 * The allowed difference of a result from the goldens, and of a sampled log-probability (`logprob`) from the trainer's:
 * in single precision, or with operands and cache in half precision.
 */
export const TOLERANCE = {
  f32: { logprob: 1e-5, logit: 1e-3, loss: 1e-5, gradient: 1e-4 },
  f16: { logprob: 1e-2, logit: 0.05, loss: 1e-2, gradient: 2e-2 },
} as const;

export interface GoldenLogits {
  top20: [id: number, logit: number][];
  sum: number;
  max: number;
  l2: number;
  logsumexp: number;
}

export interface GoldenValues {
  /** Absent with the adapter. */
  nll?: number[];
  nll_sum: number;
  last_logits: GoldenLogits;
  greedy: { ids: number[]; margins: number[] };
}

export interface Golden {
  eos: number;
  prompts: ({ name: string; ids: number[] } & Record<Kind, GoldenValues>)[];
}

interface GoldenLosses {
  loss_without_adapter: number;
  loss: number;
  gradient_l2: number;
  prompts: GoldenValues[];
  "adamw_lr1e-3_losses": number[];
}

export type GoldenLora = Record<Kind, GoldenLosses> & {
  batch: { ids: number[]; mask: number[] }[];
  masked_tokens: number;
};

/** The output of `policy_golden.py`. Lists of numbers are by trained token, in the order of each sample's mask. */
export interface GoldenPolicy {
  rank: number;
  alpha: number;
  normalizer: number;
  samples: {
    tokens: number[];
    loss_mask: number[];
    prefix_group: number;
    prefix_length: number;
    trajectory: number;
    advantages: number[];
    weights: number[];
    logprobs: number[];
    entropies: number[];
    reference_logprobs: number[];
  }[];
  cases: Record<string, GoldenPolicyCase>;
}

export interface GoldenPolicyCase {
  level: "token" | "sequence";
  clip_low: number;
  clip_high: number;
  /** The coefficient of the KL term. */
  kl: number;
  weighted: boolean;
  loss: number;
  gradient_l2: number;
  /** By sample, as are the next two. */
  old_logprobs: number[][];
  ratios: number[][];
  clipped: number[][];
}

/** The output of `preference_golden.py`. Lists of numbers are by trained token, in the order of each sample's mask. */
export interface GoldenPreference {
  samples: {
    tokens: number[];
    loss_mask: number[];
    prefix_group: number;
    prefix_length: number;
    /** The pair. */
    trajectory: number;
    rejected: boolean;
    logprobs: number[];
    reference_logprobs: number[];
  }[];
  cases: Record<PreferenceLoss, GoldenPreferenceCase>;
}

export interface GoldenPreferenceCase {
  beta: number;
  gamma: number;
  lambda: number;
  loss: number;
  gradient_l2: number;
  /** For the chosen and the rejected completion, by pair. */
  scores: [number, number][];
}

export async function readGolden(): Promise<Golden> {
  return await readFixtureJson("models/tiny-agent/golden.json");
}

export async function readGoldenLora(): Promise<GoldenLora> {
  return await readFixtureJson("models/tiny-agent/golden-lora.json");
}

export async function readGoldenPolicy(): Promise<GoldenPolicy> {
  return await readFixtureJson("models/tiny-agent/golden-policy.json");
}

export async function readGoldenPreference(): Promise<GoldenPreference> {
  return await readFixtureJson("models/tiny-agent/golden-preference.json");
}

/** The parts of an engine without its protocol. */
export interface LoadedParts {
  model: Model;
  allocator: Allocator;
  trainer: Trainer;
  close(): void;
}

/** The path of a variant of the tiny agent; any other name is already a path. */
async function pathOf(model: string): Promise<string> {
  return (KINDS as readonly string[]).includes(model)
    ? await fixturePath(`models/tiny-agent-${model}.gguf`)
    : model;
}

/** Loads a model onto a device: a variant of the tiny agent, or a file. */
export async function loadParts(
  gpu: Gpu,
  model_name: string,
  options: { compute?: "f32" | "f16"; micro_batch_tokens?: number; loss_chunk_rows?: number } = {},
): Promise<LoadedParts> {
  const { compute = "f32", micro_batch_tokens = 1024, loss_chunk_rows = 512 } = options;
  using file = await openGguf(await pathOf(model_name));
  const { model, allocator } = await loadModel(gpu, file, { compute, max_context: 1024 });
  const trainer = new Trainer(allocator, model, { micro_batch_tokens, loss_chunk_rows, kv: compute });
  return {
    model,
    allocator,
    trainer,
    close() {
      model.recorder.destroy();
      allocator.destroy();
    },
  };
}

/** A golden adapter on the device. */
export async function goldenAdapter(
  { model, allocator }: LoadedParts,
  name = GOLDEN_ADAPTER,
): Promise<DeviceAdapter> {
  const tensors = await readAdapter(await fixturePath(name));
  const { rank, alpha, targets } = tensors;
  const adapter = new DeviceAdapter(allocator, adapterLayout(model.shape, { rank, alpha, targets }));
  adapter.write(packAdapter(adapter.layout, tensors));
  return adapter;
}

/** An engine on this thread with a loaded model: a variant of the tiny agent, or a file. */
/** Opens a device that takes the forms of GPUs, also where it is a software adapter. */
export async function openAsGpu(request: DeviceRequest): Promise<Gpu> {
  const gpu = await openGpu(request);
  return { ...gpu, facts: { ...gpu.facts, software: false } };
}

export async function openEngine(
  model: string,
  request: Partial<LoadRequest> = {},
  open: typeof openGpu = openGpu,
): Promise<TestedEngine> {
  const { port1, port2 } = new MessageChannel();
  new Engine(open).serve(port1);
  const client = new EngineClient(port2);
  const { vocabulary } = await client.call("load", {
    path: await pathOf(model),
    device: { device: "auto", webgpu: "auto" },
    compute: "f32",
    kv: "f32",
    max_context: 1024,
    max_sequences: 16,
    kv_tokens: 16 * 1024,
    micro_batch_tokens: 1024,
    loss_chunk_rows: 512,
    ...request,
  });
  return {
    client,
    logprob_tolerance: TOLERANCE[request.compute === "f16" ? "f16" : "f32"].logprob,
    vocabulary,
    async close() {
      await client.close();
      port1.close();
    },
  };
}

/** A sample with its own trajectory; without a mask every token but the first is trained. */
export function sample(
  tokens: readonly number[],
  trajectory: number,
  more: Partial<Omit<TrainingSample, "loss_mask">> & { loss_mask?: readonly number[] } = {},
): TrainingSample {
  const { loss_mask = tokens.map((_, t) => t > 0 ? 1 : 0), ...rest } = more;
  return {
    tokens: Uint32Array.from(tokens),
    prefix_group: 0,
    prefix_length: 0,
    loss_mask: Uint8Array.from(loss_mask),
    trajectory,
    advantages: null,
    old_logprobs: null,
    reference_logprobs: null,
    weights: null,
    ...rest,
  };
}

/** |a − b|₂ / |b|₂ */
export function relativeL2(actual: ArrayLike<number>, expected: ArrayLike<number>): number {
  let difference = 0, norm = 0;
  for (let i = 0; i < expected.length; i++) {
    difference += (actual[i]! - expected[i]!) ** 2;
    norm += expected[i]! ** 2;
  }
  return Math.sqrt(difference / norm);
}

/** |actual − expected| ≤ tolerance */
export function expectNear(
  actual: number,
  { expected, tolerance, name }: { expected: number; tolerance: number; name: string },
): void {
  ok(
    Math.abs(actual - expected) <= tolerance,
    `${name} is ${actual}, expected ${expected} within ${tolerance}`,
  );
}

/** Values by trained token at their positions in the sample, 0 elsewhere. */
export function spreadOverMask(loss_mask: ArrayLike<number>, values: readonly number[]): Float32Array {
  const out = new Float32Array(loss_mask.length);
  let k = 0;
  for (let t = 0; t < out.length; t++) if (loss_mask[t]) out[t] = values[k++]!;
  equal(k, values.length);
  return out;
}

/** Checks that all values of all samples are near the goldens. */
export function expectAllNear(
  actual: readonly ArrayLike<number>[],
  { expected, tolerance, name }: { expected: number[][]; tolerance: number; name: string },
): void {
  deepEqual(actual.map(({ length }) => length), expected.map(({ length }) => length));
  expected.forEach((row, i) =>
    row.forEach((value, k) =>
      expectNear(actual[i]![k]!, { expected: value, tolerance, name: `${name} ${k} of sample ${i}` })
    )
  );
}
