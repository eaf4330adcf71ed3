/** Loads a model file onto a device. */

import { ServiceError } from "../../core/errors.ts";
import type { Gpu } from "../../kernels/device.ts";
import { Recorder } from "../../kernels/recorder.ts";
import { ropeTable, ropeTableShape } from "../../kernels/rope/rope.ts";
import { Allocator } from "../../kernels/tensor.ts";
import { deviceForm, forwardCompute } from "../../kernels/variant.ts";
import { countParameters, type GgufFile } from "../formats/gguf.ts";
import { modelName } from "../formats/model_name.ts";
import { readTrainableShape } from "./architectures/registry.ts";
import type { ModelShape } from "./model_shape.ts";
import type { Model, RotationTable } from "./transformer.ts";
import { type CreatedWeights, createWeights, fillWeights } from "./weights.ts";

/** A model on a device, with facts about its file. */
export interface LoadedModel {
  allocator: Allocator;
  model: Model;
  /** See {@link modelName}. */
  name: string;
  /** The parameters of the base model, without adapters. */
  parameters: number;
  /** The GGML types of the file's tensors, sorted. */
  tensor_types: string[];
}

/** How a model is loaded. */
export interface LoadOptions {
  /** The type of matmul operands. `auto`: f16 on a GPU that has it, else f32. */
  compute: "auto" | "f32" | "f16";
  /** The number of positions for which rotations are computed. */
  max_context: number;
}

/**
 * Loads the weights of an open file.
 *
 * @throws {ServiceError} `format_invalid` or `not_built` for the file; `config_invalid` for operands that the device lacks;
 * `out_of_memory`.
 */
export async function loadModel(gpu: Gpu, file: GgufFile, options: LoadOptions): Promise<LoadedModel> {
  const { path } = file;
  const allocator = new Allocator(gpu.device);
  gpu.device.pushErrorScope("out-of-memory");
  const created = await fillModel(gpu, allocator, { file, options }).catch((error) => error);
  const failed = await gpu.device.popErrorScope();
  if (failed || created instanceof Error) allocator.destroy();
  if (failed) {
    const reason = `the device has no more memory for its weights (${failed.message})`;
    throw new ServiceError("out_of_memory", `Cannot load ${path}: ${reason}`, { path, component: "weights" });
  }
  if (created instanceof Error) throw created;
  return {
    allocator,
    model: created,
    name: modelName(file.metadata, path),
    parameters: countParameters(file),
    tensor_types: [...new Set([...file.tensors.values()].map(({ type }) => type))].sort(),
  };
}

/** Allocates a model as {@link createModel} does, and fills it with the values of the file. */
export async function fillModel(
  gpu: Gpu,
  allocator: Allocator,
  { file, options }: { file: GgufFile; options: LoadOptions },
): Promise<Model> {
  const { model, created } = createModel(gpu, allocator, { file, options });
  await fillWeights(allocator, file, created);
  await fillRotations(allocator, file, model);
  return model;
}

/** Allocates a model on the device without filling it. Only the header of the file is read. */
export function createModel(
  gpu: Gpu,
  allocator: Allocator,
  { file, options }: { file: GgufFile; options: LoadOptions },
): { model: Model; created: CreatedWeights } {
  const compute = chooseCompute(gpu, options.compute);
  const shape = readTrainableShape(file), positions = options.max_context;
  const created = createWeights(allocator, file, shape);
  const rotations = createRotations(allocator, shape, positions);
  const recorder = new Recorder(gpu, allocator);
  // Only the GPU form of a product uses it.
  if (deviceForm(gpu) === "tiles") recorder.reserveScratch();
  return { model: { recorder, shape, weights: created.weights, rotations, positions, compute }, created };
}

/** The rotation table of each layer. Layers with equal rotations share a table. */
function createRotations(allocator: Allocator, shape: ModelShape, positions: number): Model["rotations"] {
  const tables = new Map<string, RotationTable>();
  const create = () => allocator.create("weights", ropeTableShape(shape.head_width, positions));
  return shape.layers.map(({ rotation }) => {
    if (!rotation) return null;
    const key = JSON.stringify(rotation);
    const table = tables.get(key) ?? { cosines: create(), sines: create(), pairing: rotation.pairing };
    tables.set(key, table);
    return table;
  });
}

async function fillRotations(
  allocator: Allocator,
  file: GgufFile,
  { shape, rotations, positions }: Model,
): Promise<void> {
  const filled = new Set<RotationTable | null>();
  for (const [i, { rotation }] of shape.layers.entries()) {
    const table = rotations[i]!;
    if (!rotation || !table || filled.has(table)) continue;
    filled.add(table);
    const factors = rotation.factors === null ? null : await file.readFloats(rotation.factors);
    const { cosines, sines } = ropeTable(shape.head_width, { base: rotation.base, factors }, positions);
    allocator.write(table.cosines, cosines);
    allocator.write(table.sines, sines);
  }
}

/**
 * Resolves `auto`, as {@link forwardCompute} does.
 *
 * @throws {ServiceError} `config_invalid` for f16 on a device that lacks it, or computes it wrong.
 */
function chooseCompute(gpu: Gpu, wanted: "auto" | "f32" | "f16"): "f32" | "f16" {
  const { facts } = gpu;
  if (wanted === "auto") return forwardCompute(gpu);
  if (wanted === "f32" || facts.features.includes("shader-f16")) return wanted;
  throw new ServiceError(
    "config_invalid",
    `Cannot use model.compute = "f16" on ${facts.name}: it has no products in f16 (shader-f16); use "auto" or "f32"`,
  );
}
