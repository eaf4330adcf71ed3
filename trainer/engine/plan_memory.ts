/** What a model, its adapters and a run take of a device: the engine's own constructors on a device that counts. */

import { countingGpu, type GpuCard } from "../../kernels/counting_gpu.ts";
import { Allocator, type UnbindableTensor } from "../../kernels/tensor.ts";
import type { GgufFile } from "../formats/gguf.ts";
import { adapterLayout, DeviceAdapter } from "../model/device_adapter.ts";
import { createModel } from "../model/load_model.ts";
import type { Model } from "../model/transformer.ts";
import { createParts, type EngineSizes } from "./engine_parts.ts";
import type { EngineDemand } from "./protocol.ts";

export { trajectoryTokens } from "../learning/packing.ts";
export type { EngineSizes } from "./engine_parts.ts";
export type { GpuCard } from "../../kernels/counting_gpu.ts";

/** What a run takes of a device. */
export interface MemoryPlan {
  /** On the device by component, as {@link EngineCounters} has them once everything is in use. */
  bytes: Readonly<Record<string, number>>;
  /** Tensors above what the device binds. */
  unbindable: readonly UnbindableTensor[];
  /** What `auto` is on this device. */
  compute: "f32" | "f16";
  kv: "f32" | "f16";
}

/**
 * The bytes that an engine allocates on such a device.
 *
 * @param file Of which only the header is used.
 * @param sizes With a demand, all that a run up to it allocates, its adapters included; without, what loading does.
 * @throws {ServiceError} `format_invalid` or `not_built`, of a model that this build cannot train.
 */
export function planMemory(file: GgufFile, sizes: EngineSizes, card: GpuCard): MemoryPlan {
  const gpu = countingGpu(card), unbindable: UnbindableTensor[] = [];
  const allocator = new Allocator(gpu.device, { refuse: (tensor) => unbindable.push(tensor) });
  const { model } = createModel(gpu, allocator, { file, options: sizes });
  const { kv } = createParts(allocator, model, sizes);
  if (sizes.demand) createAdapters(allocator, model, sizes.demand);
  return { bytes: allocator.bytes, unbindable, compute: model.compute, kv };
}

/** The adapter that learns, whose arrays are read back as for a checkpoint, and those beside it. */
function createAdapters(
  allocator: Allocator,
  { recorder, shape }: Model,
  { lora, other_adapters }: EngineDemand,
): void {
  const layout = adapterLayout(shape, lora);
  new DeviceAdapter(allocator, layout).training.m.reserveRead(recorder);
  for (let i = 0; i < other_adapters; i++) new DeviceAdapter(allocator, layout);
}
