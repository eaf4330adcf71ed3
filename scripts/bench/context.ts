/** Shared code of the bench's parts. */

import { ServiceError } from "../../core/errors.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { deviceFolder, isTuned, tuningDevices } from "../../core/device_lock.ts";
import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";
import { openCheckedGpu } from "../../kernels/canary/open_checked.ts";
import { type Gpu, isOutOfMemory } from "../../kernels/device.ts";
import { takesMatrices } from "../../kernels/matmul/matmul_layout.ts";
import { tunedGpu } from "../../kernels/tuning/tuned_gpu.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { Allocator, type Tensor, tensorBytes } from "../../kernels/tensor.ts";
import { forwardCompute } from "../../kernels/variant.ts";
import { createWeight, type Weight, writeWeight } from "../../kernels/weights/weight.ts";
import { encodeWeight } from "../../kernels/weights/encode_testing.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "../../kernels/weights/table.ts";
import type { ModelShape } from "../../trainer/model/model_shape.ts";
import type { Report } from "./report.ts";
import { type StepSizes, stepSizes } from "./step_sizes.ts";
import { type Effort, Stopwatch } from "./timing.ts";

/** The context of every part. */
export interface BenchContext {
  /** The model's file. */
  path: string;
  shape: ModelShape;
  report: Report;
  software: boolean;
  quick: boolean;
  /** The WebGPU implementation of all parts. */
  webgpu: WebGpuProviderName;
}

/** The device of all parts, as a run on it would have it: checked, and with its measured layouts. */
export async function openBenchGpu(webgpu: WebGpuProviderName): Promise<Gpu> {
  const gpu = await openCheckedGpu({ device: "auto", webgpu });
  return isTuned(tuningDevices(), gpu.facts) ? await tunedGpu(gpu, deviceFolder()) : gpu;
}

/** The context of a part that runs kernels: also a device of its own. */
export interface KernelBench extends BenchContext {
  gpu: Gpu;
  allocator: Allocator;
  recorder: Recorder;
  stopwatch: Stopwatch;
}

/** Software adapters are slow and shared: more repetitions would take minutes and show nothing new. */
function effortOf({ software, quick }: { software: boolean; quick: boolean }): Effort {
  if (quick) return { busy_ms: 0.2, repetitions: 1 };
  return { busy_ms: software ? 40 : 60, repetitions: software ? 3 : 5 };
}

/**
 * Opens a device for `body` and destroys it afterwards.
 *
 * @throws {ServiceError} `out_of_memory` or `internal` at the first measurement after the device has failed.
 */
export async function withKernels<T>(
  context: BenchContext,
  body: (bench: KernelBench) => Promise<T>,
): Promise<T> {
  const gpu = await openBenchGpu(context.webgpu);
  let failed: GPUError | null = null;
  const listen = (event: Event) => failed ??= (event as GPUUncapturedErrorEvent).error;
  gpu.device.addEventListener("uncapturederror", listen);
  const expectSound = () => {
    if (!failed) return;
    const code = isOutOfMemory(failed) ? "out_of_memory" : "internal";
    throw new ServiceError(code, `Cannot measure: the device failed (${failed.message})`);
  };
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
  const flag = allocator.create("bench", [1]);
  const stopwatch = new Stopwatch(recorder, { flag, effort: effortOf(context), expectSound });
  try {
    return await body({ ...context, gpu, allocator, recorder, stopwatch });
  } finally {
    gpu.device.removeEventListener("uncapturederror", listen);
    recorder.destroy();
    allocator.destroy();
    gpu.device.destroy();
  }
}

/** Runs parts of the bench with the largest step that fits the device; skips them when none fits. */
export async function withSizes(
  context: BenchContext,
  parts: readonly string[],
  body: (sizes: StepSizes) => Promise<void>,
): Promise<void> {
  const { report } = context;
  let reason = "";
  for (const sizes of stepSizes(context)) {
    const before = report.lines.length;
    try {
      return await body(sizes);
    } catch (error) {
      const is_full = error instanceof ServiceError && /^(out_of_memory|device_lost)$/.test(error.code);
      if (!is_full) throw error;
      // Measurements from before the memory ran out are repeated.
      report.lines.length = before;
      reason = `${error.message} (micro-batches of ${sizes.micro_batch_tokens} rows)`;
    }
  }
  for (const part of parts) report.skip(part, "all", reason);
}

/**
 * Runs a measurement. If it does not fit the device, it becomes a skipped line.
 *
 * @returns False when it was skipped.
 */
export async function orSkip(
  { report }: { report: Report },
  [bench, name]: readonly [string, string],
  body: () => Promise<void>,
): Promise<boolean> {
  try {
    await body();
    return true;
  } catch (error) {
    if (!(error instanceof ServiceError) || error.code !== "out_of_memory") throw error;
    report.skip(bench, name, error.message);
    return false;
  }
}

/**
 * The default operand type of a step's products with base weights. In the backward pass (`nn`) it is f16 only where gradients
 * are scaled first (`gradientOperands`).
 */
export function productCompute(gpu: Pick<Gpu, "facts">, orientation: "nt" | "nn"): "f32" | "f16" {
  const forward = forwardCompute(gpu);
  return orientation === "nt" || takesMatrices(gpu, forward) ? forward : "f32";
}

/** Repeated normal numbers: constant data would let a GPU run at a higher clock. */
const rng = new Rng(rngKey(1, "bench"));
const PATTERN = Float32Array.from({ length: 1 << 16 }, () => rng.normal());
const PATTERNS: Readonly<Record<"f32" | "f16", Uint8Array>> = {
  f32: new Uint8Array(PATTERN.buffer),
  f16: new Uint8Array(new Float16Array(PATTERN).buffer),
};

/** Runs code and frees its tensors afterwards. */
export async function inScope<T>(bench: KernelBench, body: (bench: KernelBench) => Promise<T>): Promise<T> {
  const allocator = bench.allocator.scope();
  try {
    return await body({ ...bench, allocator });
  } finally {
    allocator.destroy();
    bench.recorder.forgetAll();
  }
}

/** A tensor of random numbers. @throws {ServiceError} `out_of_memory` above the device's binding limit. */
export function randomTensor(
  allocator: Allocator,
  shape: readonly number[],
  dtype: "f32" | "f16" = "f32",
): Tensor {
  const tensor = allocator.create("bench", shape, dtype), pattern = PATTERNS[dtype];
  const bytes = tensorBytes(shape, dtype);
  for (let at = 0; at < bytes; at += pattern.length) {
    allocator.write(tensor, pattern.subarray(0, Math.min(pattern.length, bytes - at)), at);
    // Without a submit the driver keeps every piece.
    if (at % (16 << 20) === 0) allocator.device.queue.submit([]);
  }
  return tensor;
}

/** A matrix of random numbers. @throws {ServiceError} `out_of_memory` above the device's binding limit. */
export function randomWeight(
  allocator: Allocator,
  type: WeightTypeName,
  [rows, columns]: readonly [number, number],
): Weight {
  const weight = createWeight(allocator, "bench", { type, shape: [rows, columns] });
  const { block_values, block_bytes } = WEIGHT_TYPES[type];
  const pattern = encodeWeight(type, PATTERN),
    step = PATTERN.length / block_values,
    blocks = rows * columns / block_values;
  for (let block = 0; block < blocks; block += step) {
    const count = Math.min(step, blocks - block);
    writeWeight(allocator, weight, pattern.subarray(0, count * block_bytes), block);
    // Without a submit the driver keeps every piece.
    if (block / step % 64 === 0) allocator.device.queue.submit([]);
  }
  return weight;
}
