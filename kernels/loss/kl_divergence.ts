/**
 * The KL divergence of two distributions over the vocabulary, a chunk of rows at a time. The formulas are in the
 * shaders.
 */

import { assert } from "../../core/errors.ts";
import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import { vocabularySlices } from "./cross_entropy.ts";
import sumWgsl from "./kl_divergence.wgsl" with { type: "text" };
import partialsWgsl from "./kl_divergence_partials.wgsl" with { type: "text" };

const THREADS = 64;

const partialsKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "kl_divergence_partials",
    wgsl: [itemPart(size), { file: "kl_divergence_partials.wgsl", text: partialsWgsl }],
    params: { rows: "u32", items: "u32", slices: "u32", first_row: "u32" },
    inputs: ["p_logits", "q_logits", "p_logsumexp", "q_logsumexp"],
    outputs: ["partials"],
  })
);

const sumKernel = defineKernel({
  name: "kl_divergence",
  wgsl: sumWgsl,
  params: { rows: "u32", slices: "u32", first_row: "u32" },
  inputs: ["partials"],
  outputs: ["divergence"],
});

/** A chunk of both policies' logits, and arrays over all R rows. */
export interface KlDivergenceTensors {
  /** `[rows, V] f32`; a logit of −inf is masked, in both alike. */
  p_logits: Tensor;
  q_logits: Tensor;
  /** `[R, 2] f32`, as `tokenLogprobs` writes them. */
  p_logsumexp: Tensor;
  q_logsumexp: Tensor;
  /** At least rows · `vocabularySlices(V)` f32 elements. */
  partials: Tensor;
  /** `[R] f32`, in nats. */
  divergence: Tensor;
}

/**
 * Records `divergence[r] = KL(p_r‖q_r) = Σ_v p log(p / q)` for rows from `first_row` on: of the full distributions, not
 * only of the sampled token.
 *
 * @throws {ShapeError} When the shapes do not match.
 */
export function klDivergence(recorder: Recorder, tensors: KlDivergenceTensors, first_row: number): void {
  const { partials, divergence } = tensors;
  const [rows, vocabulary] = expectShape(tensors.p_logits, "p_logits", 2);
  expectShape(tensors.q_logits, "q_logits", [rows, vocabulary]);
  const [total] = expectShape(divergence, "divergence", 1);
  for (const name of ["p_logsumexp", "q_logsumexp"] as const) expectShape(tensors[name], name, [total, 2]);
  assert(first_row + rows <= total, `rows ${first_row} to ${first_row + rows} of ${total}`);
  const size = itemSize(vocabulary), slices = vocabularySlices(vocabulary);
  assert(
    elementCount(partials.shape) >= rows * slices,
    `partials of ${rows} rows hold ${rows * slices} elements`,
  );
  const first = { rows, items: vocabulary / size, slices, first_row };
  recorder.dispatch(partialsKernel(size), first, tensors, wrappedGrid(ceilDiv(rows * slices, THREADS)));
  recorder.dispatch(sumKernel, { rows, slices, first_row }, { partials, divergence }, [
    ceilDiv(rows, THREADS),
  ]);
}
