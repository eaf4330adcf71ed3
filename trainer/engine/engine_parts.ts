/** Creates the trainer and the sampler of a model. The memory plan uses the same code on a counting device. */

import { PAGE_TOKENS } from "../../core/kv_pages.ts";
import { ceilDiv } from "../../kernels/shape.ts";
import type { Allocator } from "../../kernels/tensor.ts";
import { Trainer } from "../learning/trainer.ts";
import { adapterLayout, LEAST_PADDED_RANK } from "../model/device_adapter.ts";
import type { Model } from "../model/transformer.ts";
import { Sampler } from "../sampler/sampler.ts";
import type { EngineDemand, EngineSizes } from "../protocol/protocol.ts";

/** Steps of a decode block. More of them are read at once, but a row that ends early idles until its block ends. */
const BLOCK_STEPS = { software: 4, gpu: 16 };

/** Open sequences beyond twice `max_sequences`: prompts of groups, and sequences that wait. */
const SPARE_SEQUENCES = 64;

/** The most tokens of a pass with given ones. On a software adapter more of them gain little. */
const MAX_PREFILL = { software: 1024, gpu: 2048 };

/** On a GPU a pass of a large model has fewer tokens: about as many as these bytes hold, but no fewer than so many. */
const PREFILL_BYTES = 256 * 2 ** 20, LEAST_PREFILL = 512, PREFILL_STEP = 64;

/** The tokens of a pass with given ones, of which each has some arrays of the hidden states' width and the feed-forward's. */
export function prefillTokens({ recorder: { gpu }, shape: { width, feed_forward } }: Model): number {
  if (gpu.facts.software) return MAX_PREFILL.software;
  const fitting = Math.floor(PREFILL_BYTES / (4 * (4 * width + 3 * feed_forward)) / PREFILL_STEP) *
    PREFILL_STEP;
  return Math.max(LEAST_PREFILL, Math.min(MAX_PREFILL.gpu, fitting));
}

/** The parts of an engine that run on a model. */
export interface EngineParts {
  trainer: Trainer;
  sampler: Sampler;
  /** The type of cached keys and values. */
  kv: "f32" | "f16";
}

/**
 * Creates the trainer and the sampler. They use the same memory in turn: the sampler's cache and the arrays of its steps
 * while it samples, the arrays of a pass while it trains. What a call of the sampler can need (`Sampler.reserve`) is
 * allocated once and freed again, so that a device with too little memory shows it here. With a demand, so is what the trainer needs, and
 * it stays.
 *
 * @throws {ServiceError} `out_of_memory` when the device cannot bind a buffer.
 */
export function createParts(allocator: Allocator, model: Model, sizes: EngineSizes): EngineParts {
  const { max_sequences, max_context, kv_tokens, micro_batch_tokens } = sizes;
  const kv = sizes.kv === "auto" ? model.compute : sizes.kv;
  const kind = model.recorder.gpu.facts.software ? "software" : "gpu";
  const trainer = new Trainer(allocator, model, { ...sizes, kv });
  const sampler = new Sampler(allocator, model, {
    max_sequences,
    max_prefill: Math.min(micro_batch_tokens, prefillTokens(model)),
    slots: 2 * max_sequences + SPARE_SEQUENCES,
    slot_pages: ceilDiv(max_context, PAGE_TOKENS),
    pages: ceilDiv(kv_tokens, PAGE_TOKENS),
    kv,
    block_steps: BLOCK_STEPS[kind],
  });
  sampler.reserve(
    sizes.demand ? adapterLayout(model.shape, sizes.demand.lora).padded_rank : LEAST_PADDED_RANK,
  );
  sampler.release();
  if (sizes.demand) reserveTrainer(trainer, model, sizes.demand);
  return { trainer, sampler, kv };
}

/** Allocates for calls up to this demand. */
export function reserveTrainer(trainer: Trainer, { shape }: Model, demand: EngineDemand): void {
  const { lora, targets, divergence } = demand;
  trainer.reserve({ padded_rank: adapterLayout(shape, lora).padded_rank, targets, divergence });
}
