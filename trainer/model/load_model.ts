/** A model file on a device, ready to run. */

import { ServiceError } from "../../core/errors.ts";
import type { Gpu } from "../../kernels/device.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { ropeTable } from "../../kernels/rope/rope.ts";
import { Allocator } from "../../kernels/tensor.ts";
import { type GgufFile, openGguf } from "../formats/gguf.ts";
import { modelName } from "../formats/model_name.ts";
import { readTrainableShape } from "./architectures/registry.ts";
import type { ModelShape, Rotation } from "./model_shape.ts";
import type { Model, RotationTable } from "./transformer.ts";
import { loadWeights } from "./weights.ts";

export interface LoadedModel {
  allocator: Allocator;
  model: Model;
  /** See {@link modelName}. */
  name: string;
  /** Of the base, without adapters. */
  parameters: number;
  tensor_types: string[];
}

/**
 * Loads a GGUF file's weights.
 *
 * @param options max_context: positions for which rotations are prepared.
 * @throws {ServiceError} What is wrong with the file, or `out_of_memory`.
 */
export async function loadModel(
  gpu: Gpu,
  path: string,
  options: { compute: "auto" | "f32" | "f16"; max_context: number },
): Promise<LoadedModel> {
  using file = await openGguf(path);
  const shape = readTrainableShape(file);
  const allocator = new Allocator(gpu.device);
  gpu.device.pushErrorScope("out-of-memory");
  const uploaded = await upload(allocator, file, { shape, positions: options.max_context }).catch((error) =>
    error
  );
  const failed = await gpu.device.popErrorScope();
  if (failed || uploaded instanceof Error) allocator.destroy();
  if (failed) {
    const reason = `the device has no more memory for its weights (${failed.message})`;
    throw new ServiceError("out_of_memory", `Cannot load ${path}: ${reason}`, { path, component: "weights" });
  }
  if (uploaded instanceof Error) throw uploaded;
  const tensors = [...file.tensors.values()];
  return {
    allocator,
    model: { recorder: new Recorder(gpu), shape, ...uploaded, compute: chooseCompute(gpu, options.compute) },
    name: modelName(file.metadata, path),
    parameters: tensors.reduce((sum, tensor) => sum + tensor.shape.reduce((a, b) => a * b, 1), 0),
    tensor_types: [...new Set(tensors.map((tensor) => tensor.type))].sort(),
  };
}

async function upload(
  allocator: Allocator,
  file: GgufFile,
  { shape, positions }: { shape: ModelShape; positions: number },
): Promise<Pick<Model, "weights" | "rotations" | "positions">> {
  const weights = await loadWeights(allocator, file, shape);
  const tables = new Map<string, RotationTable>();
  const tableOf = async (rotation: Rotation): Promise<RotationTable> => {
    const { base, pairing, factors } = rotation;
    const divisors = factors === null ? null : await file.readFloats(factors);
    const table = ropeTable(shape.head_width, { base, factors: divisors }, positions);
    return {
      cosines: allocator.upload("weights", table.shape, table.cosines),
      sines: allocator.upload("weights", table.shape, table.sines),
      pairing,
    };
  };
  const rotations: (RotationTable | null)[] = [];
  for (const { rotation } of shape.layers) {
    const key = JSON.stringify(rotation);
    if (rotation && !tables.has(key)) tables.set(key, await tableOf(rotation));
    rotations.push(tables.get(key) ?? null);
  }
  return { weights, rotations, positions };
}

/** `auto`: f32 on a software adapter, else f16 where the device has it. */
function chooseCompute(gpu: Gpu, wanted: "auto" | "f32" | "f16"): "f32" | "f16" {
  if (wanted !== "auto") return wanted;
  return !gpu.facts.software && gpu.facts.features.includes("shader-f16") ? "f16" : "f32";
}
