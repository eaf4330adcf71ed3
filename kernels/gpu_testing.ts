/** Helpers for kernel tests: a device, tensors from numbers, comparison with a reference. */

import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { Rng, rngKey } from "../core/random.ts";
import { WEBGPU_PROVIDERS } from "../core/webgpu_providers.ts";
import { type Gpu, openGpu } from "./device.ts";
import { Recorder } from "./recorder.ts";
import { elementCount } from "./shape.ts";
import { Allocator, type DType, type Tensor } from "./tensor.ts";
import { createWeight, type Weight, writeWeight } from "./weights/weight.ts";
import { encodeWeight } from "./weights/encode_testing.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "./weights/table.ts";

/** The WebGPU that tests use: `SVC_TEST_WEBGPU=dawn deno test kernels/` runs them on Dawn. */
const webgpu = WEBGPU_PROVIDERS.find((name) => name === Deno.env.get("SVC_TEST_WEBGPU")) ?? "auto";

/** The process's device, or why there is none. Tests share it, because opening one takes longer than most tests. */
const testGpu: Gpu | ServiceError = await openGpu({ device: "auto", webgpu }).catch(
  (error) => {
    if (error instanceof ServiceError) return error;
    throw error;
  },
);

/**
 * A test that needs a device. Without one it is skipped with the reason; with `REQUIRE_GPU=1` it fails.
 *
 * @param name The name, or a test's options with its name.
 * @param lacks What this device lacks for the test, which is then skipped with this reason; `null`: nothing.
 */
export function gpuTest(
  name: string | { name: string; sanitizeOps: boolean; sanitizeResources: boolean },
  body: (gpu: Gpu) => Promise<void> | void,
  lacks: (gpu: Gpu) => string | null = () => null,
): void {
  const options = typeof name === "string" ? { name } : name;
  const skip = (reason: string) =>
    Deno.test({ name: `${options.name} (skipped: ${reason})`, ignore: true, fn: () => {} });
  if (testGpu instanceof ServiceError) {
    if (Deno.env.get("REQUIRE_GPU") === "1") return Deno.test(options.name, () => Promise.reject(testGpu));
    return skip(testGpu.message);
  }
  const missing = lacks(testGpu);
  if (missing !== null) return skip(missing);
  Deno.test({ ...options, fn: () => body(testGpu as Gpu) });
}

/** Why a test whose products have operands in f16 cannot run on a device; null: it can. */
export function lacksF16({ facts }: Pick<Gpu, "facts">): string | null {
  return facts.features.includes("shader-f16") ? null : "the device lacks shader-f16";
}

/** Values and shape of a tensor, and its type if it is not f32. */
export type Given = readonly [
  values: ArrayLike<number>,
  shape: readonly number[],
  dtype?: "f32" | "u32" | "f16",
];

/** The bytes of values in a type; f16 rounds to nearest even. */
function encodeValues(values: ArrayLike<number>, dtype: "f32" | "u32" | "f16"): Uint8Array {
  const array = dtype === "f32"
    ? Float32Array.from(values)
    : dtype === "u32"
    ? Uint32Array.from(values)
    : Float16Array.from(values);
  return new Uint8Array(array.buffer);
}

/** Uploads tensors, records, submits and reads every f32 tensor back as f64. */
export async function run<const T extends Record<string, Given>>(
  gpu: Gpu,
  given: T,
  record: (recorder: Recorder, tensors: { readonly [K in keyof T]: Tensor }, allocator: Allocator) => void,
): Promise<{ [K in keyof T]: Float64Array }> {
  const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
  try {
    const names = Object.keys(given);
    const tensors: Record<string, Tensor> = {};
    for (const name of names) {
      const [values, shape, dtype = "f32"] = given[name]!;
      assert.equal(values.length, elementCount(shape), `${name} holds what its shape says`);
      tensors[name] = allocator.create(name, shape, dtype as DType);
      allocator.write(tensors[name], encodeValues(values, dtype));
    }
    gpu.device.pushErrorScope("validation");
    record(recorder, tensors as { [K in keyof T]: Tensor }, allocator);
    const bytes = await recorder.submitAndRead(Object.values(tensors));
    const failed = await gpu.device.popErrorScope();
    if (failed) throw new Error(failed.message);
    const out: Record<string, Float64Array> = {};
    names.forEach((name, i) => {
      const dtype = given[name]![2] ?? "f32";
      const count = elementCount(given[name]![1]);
      const values = dtype === "f32"
        ? new Float32Array(bytes[i]!)
        : dtype === "u32"
        ? new Uint32Array(bytes[i]!)
        : new Float16Array(bytes[i]!);
      out[name] = Float64Array.from(values.subarray(0, count));
    });
    return out as { [K in keyof T]: Float64Array };
  } finally {
    recorder.destroy();
    allocator.destroy();
  }
}

/** Seeded standard normal values, rounded to f32 so that reference and kernel see the same numbers. */
export function randomNormal(seed: number, count: number, offset = 0): Float64Array {
  const rng = new Rng(rngKey(seed, "normal"));
  return Float64Array.from({ length: count }, () => Math.fround(rng.normal() + offset));
}

/** An allocator of a device as if it bound no more than so many bytes. */
export function limitedAllocator({ device }: Gpu, limit_bytes: number): Allocator {
  return new Allocator({
    limits: { maxStorageBufferBindingSize: limit_bytes, maxBufferSize: limit_bytes },
    createBuffer: (descriptor) => device.createBuffer(descriptor),
    queue: device.queue,
  });
}

/** A weight of seeded normal values: complete blocks as in a file, and the decoded values. */
export function randomWeight(seed: number, type: WeightTypeName, count: number) {
  const bytes = encodeWeight(type, Float32Array.from(randomNormal(seed, count)));
  return { bytes, values: Float64Array.from(WEIGHT_TYPES[type].decode(bytes)) };
}

/** A weight on the device with these blocks. */
export function uploadWeight(
  allocator: Allocator,
  form: Pick<Weight, "type" | "shape">,
  bytes: Uint8Array,
): Weight {
  const weight = createWeight(allocator, "test", form);
  writeWeight(allocator, weight, bytes);
  return weight;
}

/** A tensor filled with one value: NaN for an output that is overwritten, a number for one that is accumulated. */
export function filled(value: number, ...shape: number[]): [Float64Array, number[]] {
  return [new Float64Array(elementCount(shape)).fill(value), shape];
}

/** |actual − expected| ≤ absolute + relative·|expected| everywhere; the message names the worst position. */
export function expectClose(
  actual: ArrayLike<number>,
  expected: ArrayLike<number>,
  tolerance: { relative: number; absolute: number },
  name: string,
): void {
  assert.equal(actual.length, expected.length, `${name}: as many values`);
  let worst = -1, excess = 0;
  for (let i = 0; i < expected.length; i++) {
    const allowed = tolerance.absolute + tolerance.relative * Math.abs(expected[i]!);
    const ratio = actual[i] === expected[i] ? 0 : Math.abs(actual[i]! - expected[i]!) / allowed;
    if (!(ratio <= Math.max(1, excess))) {
      worst = i;
      excess = ratio;
    }
  }
  if (worst >= 0) {
    assert.fail(
      `${name}[${worst}] is ${actual[worst]}, expected ${expected[worst]}: ${excess} times the tolerance`,
    );
  }
}

/** Central differences of a scalar function of an array. */
export function centralDifferences(
  at: Float64Array,
  loss: (x: Float64Array) => number,
  step = 1e-5,
): Float64Array {
  return at.map((value, i) => (loss(at.with(i, value + step)) - loss(at.with(i, value - step))) / (2 * step));
}
