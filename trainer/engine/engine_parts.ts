/** What runs on a loaded model, made alike on a device and where a plan only counts. */

import { PAGE_TOKENS } from "../../kernels/kv_pages/kv_pages.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import type { Allocator } from "../../kernels/tensor.ts";
import { Trainer } from "../learning/trainer.ts";
import { adapterLayout } from "../model/device_adapter.ts";
import type { Model } from "../model/transformer.ts";
import { Sampler } from "../sampler/sampler.ts";
import type { EngineDemand, LoadRequest } from "./protocol.ts";

/** Steps of a decode block: a readback costs at least 10 ms, and a row that ends early idles for the rest. */
const BLOCK_STEPS = { software: 8, gpu: 16 };

/** Sequences that may be open beside those that generate: prompts of groups, and members that wait. */
const SPARE_SEQUENCES = 64;

/** Rows of a prefill step at most. */
const MAX_PREFILL = 512;

/** A load request without the places of file and device. */
export type EngineSizes = Omit<LoadRequest, "path" | "device">;

export interface EngineParts {
  trainer: Trainer;
  sampler: Sampler;
  /** Type of cached keys and values. */
  kv: "f32" | "f16";
}

/** @throws {ServiceError} `out_of_memory` when the device cannot bind a buffer. */
export function createParts(allocator: Allocator, model: Model, sizes: EngineSizes): EngineParts {
  const { max_sequences, max_context, kv_tokens, micro_batch_tokens } = sizes;
  const kv = sizes.kv === "auto" ? model.compute : sizes.kv;
  const block_steps = model.recorder.gpu.facts.software ? BLOCK_STEPS.software : BLOCK_STEPS.gpu;
  const trainer = new Trainer(allocator, model, { ...sizes, kv });
  const sampler = new Sampler(allocator, model, {
    max_sequences,
    max_prefill: Math.min(micro_batch_tokens, MAX_PREFILL),
    slots: 2 * max_sequences + SPARE_SEQUENCES,
    slot_pages: ceilDiv(max_context, PAGE_TOKENS),
    pages: ceilDiv(kv_tokens, PAGE_TOKENS),
    kv,
    block_steps,
  });
  if (sizes.demand) reserveParts({ trainer, sampler, kv }, model, sizes.demand);
  return { trainer, sampler, kv };
}

/** Makes the room that calls up to this demand take. */
function reserveParts({ trainer, sampler }: EngineParts, { shape }: Model, demand: EngineDemand): void {
  const { padded_rank } = adapterLayout(shape, demand.lora), { targets, divergence } = demand;
  trainer.reserve({ padded_rank, targets, divergence });
  sampler.reserve(padded_rank);
}
