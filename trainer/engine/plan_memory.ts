/** Plans the device memory of a run: it runs the engine's own constructors on a device that only counts bytes. */

import type { GpuCard } from "../../core/device.ts";
import { countingGpu } from "../../kernels/counting_gpu.ts";
import { Allocator, type UnbindableTensor } from "../../kernels/tensor.ts";
import type { GgufFile } from "../formats/gguf.ts";
import { adapterLayout, LEAST_PADDED_RANK } from "../model/device_adapter.ts";
import { createModel } from "../model/load_model.ts";
import type { Model } from "../model/transformer.ts";
import { adapterCount, Adapters } from "./adapters.ts";
import { createParts, type EngineParts } from "./engine_parts.ts";
import type { EngineSizes, LoraShape } from "../protocol/protocol.ts";

/** The memory of a run. */
export interface MemoryPlan {
  /**
   * Bytes on the device by component when they are the most in all, while the sampler or the trainer has the memory that
   * they use in turn: the `peak_bytes` of EngineCounters.
   */
  bytes: Readonly<Record<string, number>>;
  /**
   * Bytes in the machine's memory by component, as far as they follow from the model and the run: the copies in
   * {@link HOST_COMPONENTS}, and on a software device all of `bytes`. The program itself and its data come on top.
   */
  host: Readonly<Record<string, number>>;
  /** The tensors above the device's binding limit. */
  unbindable: readonly UnbindableTensor[];
  /** The types in use; `auto` is resolved for this device. */
  compute: "f32" | "f16";
  kv: "f32" | "f16";
}

/**
 * Copies in the machine's memory. `host_checkpoint`: AdamW's moments m and v while a checkpoint is written, and the
 * adapter and its moments before an update that can be taken back. `host_textures`: on a software device, the
 * textures through which kernels read the components {@link TEXTURED} (`kernels/mirrors.ts`).
 */
export const HOST_COMPONENTS = ["host_checkpoint", "host_textures"] as const;

/** The components of which kernels for software adapters have textures. */
export const TEXTURED = ["weights", "kv", "adapters", "activations", "sampler", "loss"];

/**
 * Textures of a tensor at most, on average: a matrix of f16 is read as vectors and as words, and an activation's first texture
 * stays until a step with more rows is submitted.
 */
export const TEXTURES_OF_TENSOR = 2;

/**
 * The bytes that an engine allocates on a device like this.
 *
 * @param file Only its header is read.
 * @param sizes With a demand the plan has all that such a run allocates, including its adapters. Without one it has what
 * loading allocates.
 * @throws {ServiceError} `format_invalid` or `not_built` for a model that this build cannot train.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * import { assumedGpu } from "../../kernels/assumed_gpu.ts";
 * import { openGguf } from "../formats/gguf.ts";
 *
 * using file = await openGguf("fixtures/models/tiny-agent-f16.gguf");
 * const sizes = {
 *   ...{ compute: "f32", kv: "f32", max_context: 512, max_sequences: 8, kv_tokens: 4096 },
 *   ...{ micro_batch_tokens: 512, loss_chunk_rows: 256 },
 * };
 * const { bytes, unbindable } = planMemory(file, sizes, assumedGpu());
 * const halves = planMemory(file, { ...sizes, kv: "f16" }, assumedGpu());
 * assert.equal(bytes.kv, 2 * halves.bytes.kv);
 * assert.deepEqual(unbindable, []);
 * ```
 */
export function planMemory(file: GgufFile, sizes: EngineSizes, card: GpuCard): MemoryPlan {
  return countedMemory(
    file,
    { sizes, card },
    ({ adapters, sampler, trainer, model }) => {
      const { demand } = sizes;
      let copied = 0;
      if (demand) {
        const { lora, keeps_state: is_kept } = demand;
        copied = adapters.reserve({ lora, count: adapterCount(demand), is_trained: true, is_kept });
      }
      // The trainer's arrays are there; now the sampler takes its turn.
      trainer.release();
      sampler.reserve(demand ? adapterLayout(model.shape, demand.lora).padded_rank : LEAST_PADDED_RANK);
      return copied;
    },
  );
}

/** The parts of an engine on the counting device. */
interface CountedParts extends EngineParts {
  model: Model;
  adapters: Adapters;
}

/** Counts what loading allocates, and what `more` reserves besides. It returns the bytes of a checkpoint's copies. */
function countedMemory(
  file: GgufFile,
  { sizes, card }: { sizes: EngineSizes; card: GpuCard },
  more: (parts: CountedParts) => number,
): MemoryPlan {
  const gpu = countingGpu(card), unbindable: UnbindableTensor[] = [];
  const allocator = new Allocator(gpu.device, { refuse: (tensor) => unbindable.push(tensor) });
  const { model } = createModel(gpu, allocator, { file, options: sizes });
  const parts = createParts(allocator, model, sizes);
  const adapters = new Adapters(allocator, model, { base_model: "" });
  const host_checkpoint = more({ ...parts, model, adapters }), bytes = allocator.peak;
  const host_textures = TEXTURES_OF_TENSOR *
    TEXTURED.reduce((sum, component) => sum + (bytes[component] ?? 0), 0);
  const host = {
    ...(card.facts.software ? { ...bytes, host_textures } : {}),
    ...(host_checkpoint > 0 && { host_checkpoint }),
  };
  return { bytes, host, unbindable, compute: model.compute, kv: parts.kv };
}

/** The sizes of an engine that samples and does not train. */
export interface ServedSizes {
  sizes: EngineSizes;
  /** The shape of the adapters. */
  lora: LoraShape;
  /** The number of open adapters. */
  adapters: number;
}

/** Like {@link planMemory}, for an engine that samples with adapters. */
export function planServedMemory(
  file: GgufFile,
  { sizes, lora, adapters }: ServedSizes,
  card: GpuCard,
): MemoryPlan {
  return countedMemory(file, { sizes, card }, (parts) => {
    const copied = parts.adapters.reserve({ lora, count: adapters, is_trained: false });
    parts.sampler.reserve(adapterLayout(parts.model.shape, lora).padded_rank);
    return copied;
  });
}
