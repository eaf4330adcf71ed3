/**
 * Log-probabilities over the vocabulary and their gradient, a chunk of rows at a time. The formulas are in the shaders.
 */

import { assert } from "../../core/errors.ts";
import { defineKernel, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { softCapParts } from "../soft_cap/soft_cap.ts";
import {
  constantsPart,
  deviceForm,
  itemPart,
  type ItemSize,
  itemSize,
  kernelFamily,
  type KernelForm,
  wrappedGrid,
} from "../variant.ts";
import backwardWgsl from "./cross_entropy_backward.wgsl" with { type: "text" };
import statisticsWgsl from "./token_logprobs.wgsl" with { type: "text" };
import partialsWgsl from "./vocabulary_partials.wgsl" with { type: "text" };

const THREADS = 64;
/**
 * The most slices of a row, as many as a workgroup of {@link slicesPart} has threads on a GPU: enough for a GPU when rows are
 * few. Each has at least this many items.
 */
export const MAX_SLICES = 256;
const MIN_SLICE_ITEMS = 32;

const partialsKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "vocabulary_partials",
    wgsl: [itemPart(size), { file: "vocabulary_partials.wgsl", text: partialsWgsl }],
    params: { rows: "u32", items: "u32", slices: "u32" },
    inputs: ["logits"],
    outputs: ["partials"],
    textures: { logits: 1 },
  })
);

const statisticsKernel = kernelFamily((form: KernelForm) =>
  defineKernel({
    name: "token_logprobs",
    wgsl: [slicesPart(form), { file: "token_logprobs.wgsl", text: statisticsWgsl }],
    params: { rows: "u32", vocabulary: "u32", slices: "u32", first_row: "u32" },
    inputs: ["partials", "logits", "targets"],
    outputs: ["logprob", "entropy", "logsumexp"],
  })
);

const backwardKernel = kernelFamily((size: ItemSize, soft_cap: number) =>
  defineKernel({
    name: "cross_entropy_backward",
    wgsl: [itemPart(size), ...softCapParts(soft_cap), {
      file: "cross_entropy_backward.wgsl",
      text: backwardWgsl,
    }],
    params: { rows: "u32", items: "u32", first_row: "u32" },
    inputs: ["targets", "logsumexp", "g"],
    outputs: ["logits"],
  })
);

/** The number of slices of a vocabulary row. It depends only on V, so that a row's bits do not depend on other rows. */
export function vocabularySlices(vocabulary: number): number {
  return Math.min(MAX_SLICES, ceilDiv(vocabulary / itemSize(vocabulary), MIN_SLICE_ITEMS));
}

/** `threads` and `rows_staged` of a kernel that combines the slices of rows: on a GPU a workgroup has a row. */
export function slicesPart(form: KernelForm): WgslPart {
  return constantsPart(
    form === "tiles" ? { threads: MAX_SLICES, rows_staged: true } : { threads: THREADS, rows_staged: false },
  );
}

/** The grid of such a kernel. */
export function slicesGrid(form: KernelForm, rows: number): readonly [number, number] {
  return wrappedGrid(form === "tiles" ? rows : ceilDiv(rows, THREADS));
}

/** The number of f32 elements of `partials` that {@link tokenLogprobs} needs for a chunk of `rows` rows. */
export function vocabularyPartials(rows: number, vocabulary: number): number {
  return rows * vocabularySlices(vocabulary) * 4;
}

/** A chunk of logits `[rows, V] f32` and, for all R rows, the other tensors of {@link tokenLogprobs}. */
export interface VocabularyTensors {
  logits: Tensor;
  /** `[R] u32`, each below V. */
  targets: Tensor;
  /** At least {@link vocabularyPartials} f32 elements. */
  partials: Tensor;
  /** `[R] f32`, log π(target). */
  logprob: Tensor;
  /** `[R] f32`, −Σ p log p in nats. */
  entropy: Tensor;
  /** `[R, 2] f32`: the largest logit m, and log Σ exp(z − m); their sum is the logsumexp. */
  logsumexp: Tensor;
}

/**
 * Records the target's log-probability, the entropy and the normaliser of every row of a chunk: rows from `first_row`
 * on in the `[R]` arrays. A logit of −inf is masked; a row needs at least one unmasked logit.
 *
 * @throws {ShapeError} When the shapes do not match.
 */
export function tokenLogprobs(
  recorder: Recorder,
  tensors: VocabularyTensors,
  first_row: number,
  form: KernelForm = deviceForm(recorder.gpu),
): void {
  const { logits, partials } = tensors;
  const [rows, vocabulary] = expectShape(logits, "logits", 2);
  const [total] = expectShape(tensors.targets, "targets", 1);
  for (const name of ["logprob", "entropy"] as const) expectShape(tensors[name], name, [total]);
  expectShape(tensors.logsumexp, "logsumexp", [total, 2]);
  assert(first_row + rows <= total, `rows ${first_row} to ${first_row + rows} of ${total}`);
  const needed = vocabularyPartials(rows, vocabulary);
  assert(elementCount(partials.shape) >= needed, `partials of ${rows} rows hold ${needed} elements`);
  const size = itemSize(vocabulary), slices = vocabularySlices(vocabulary);
  const first = { rows, items: vocabulary / size, slices };
  const grid = wrappedGrid(ceilDiv(rows * slices, THREADS));
  recorder.dispatch(partialsKernel(size), first, { logits, partials }, grid);
  const second = { rows, vocabulary, slices, first_row };
  recorder.dispatch(statisticsKernel(form), second, tensors, slicesGrid(form, rows));
}

/**
 * Records `logits ← g · (onehot(target) − softmax(logits))` for every row of a chunk: the gradient of a loss whose
 * derivative with respect to row r's log-probability is `g[first_row + r]`. All losses use this kernel.
 *
 * @param tensors logits `[rows, V] f32`, overwritten by their gradient; targets `[R] u32`, logsumexp `[R, 2] f32` of
 * {@link tokenLogprobs}, g `[R] f32`.
 * @param soft_cap The cap that was applied to the logits; the gradient is then that of the logits before it. Null
 * without a cap. Capped logits are finite.
 * @throws {ShapeError} When the shapes do not match.
 */
export function crossEntropyBackward(
  recorder: Recorder,
  tensors: Pick<VocabularyTensors, "logits" | "targets" | "logsumexp"> & { g: Tensor },
  first_row: number,
  soft_cap: number | null = null,
): void {
  const [rows, vocabulary] = expectShape(tensors.logits, "logits", 2);
  const [total] = expectShape(tensors.targets, "targets", 1);
  expectShape(tensors.g, "g", [total]);
  expectShape(tensors.logsumexp, "logsumexp", [total, 2]);
  assert(first_row + rows <= total, `rows ${first_row} to ${first_row + rows} of ${total}`);
  const size = itemSize(vocabulary), items = vocabulary / size;
  const grid = wrappedGrid(ceilDiv(rows * items, THREADS));
  recorder.dispatch(backwardKernel(size, soft_cap ?? 0), { rows, items, first_row }, tensors, grid);
}
