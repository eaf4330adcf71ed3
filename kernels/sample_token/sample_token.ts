/** Samples tokens on the device. The formulas are in the shaders. */

import { assert } from "../../core/errors.ts";
import { defineKernel, type WgslPart } from "../kernel.ts";
import { slicesGrid, slicesPart, vocabularyPartials, vocabularySlices } from "../loss/cross_entropy.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectShape } from "../shape.ts";
import gumbelWgsl from "../shared/gumbel.wgsl" with { type: "text" };
import pcg4dWgsl from "../shared/pcg4d.wgsl" with { type: "text" };
import type { Tensor } from "../tensor.ts";
import {
  deviceForm,
  itemPart,
  type ItemSize,
  itemSize,
  kernelFamily,
  type KernelForm,
  wrappedGrid,
} from "../variant.ts";
import maskedLogitsWgsl from "./masked_logits.wgsl" with { type: "text" };
import rowLanesWgsl from "./row_lanes.wgsl" with { type: "text" };
import rowTilesWgsl from "./row_tiles.wgsl" with { type: "text" };
import partialsWgsl from "./sample_partials.wgsl" with { type: "text" };
import sampleWgsl from "./sample_token.wgsl" with { type: "text" };
import cutoffWgsl from "./top_cutoff.wgsl" with { type: "text" };

const THREADS = 64;
/** Rows of a workgroup in which each thread owns a row; the same as in row_lanes.wgsl. */
const ROWS_PER_GROUP = 32;

const maskedLogits: WgslPart = { file: "masked_logits.wgsl", text: maskedLogitsWgsl };

const partialsKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "sample_partials",
    wgsl: [
      itemPart(size),
      maskedLogits,
      { file: "shared/pcg4d.wgsl", text: pcg4dWgsl },
      { file: "shared/gumbel.wgsl", text: gumbelWgsl },
      { file: "sample_partials.wgsl", text: partialsWgsl },
    ],
    params: { rows: "u32", items: "u32", slices: "u32", mask_words: "u32", has_cutoff: "u32" },
    inputs: ["logits", "mask", "temperature", "rng_key", "position", "cutoff"],
    outputs: ["partials"],
    textures: { logits: 1 },
  })
);

const sampleKernel = kernelFamily((form: KernelForm) =>
  defineKernel({
    name: "sample_token",
    wgsl: [slicesPart(form), { file: "sample_token.wgsl", text: sampleWgsl }],
    params: { rows: "u32", vocabulary: "u32", slices: "u32" },
    inputs: ["partials", "logits", "temperature"],
    outputs: ["token", "logprob"],
  })
);

const cutoffKernel = kernelFamily((form: KernelForm, size: ItemSize) =>
  defineKernel({
    name: `top_cutoff_${form}`,
    wgsl: [
      itemPart(size),
      maskedLogits,
      form === "lanes"
        ? { file: "row_lanes.wgsl", text: rowLanesWgsl }
        : { file: "row_tiles.wgsl", text: rowTilesWgsl },
      { file: "top_cutoff.wgsl", text: cutoffWgsl },
    ],
    params: { rows: "u32", items: "u32", mask_words: "u32" },
    inputs: ["logits", "mask", "temperature", "top_k", "top_p"],
    outputs: ["cutoff"],
  })
);

/** The number of f32 elements of `partials` that {@link sampleToken} needs. */
export function samplePartials(rows: number, vocabulary: number): number {
  return vocabularyPartials(rows, vocabulary);
}

/** The tensors of {@link sampleToken}: a row for each of B sequences. */
export interface SampleTensors {
  /** `[B, V] f32`, V below 2^24. A logit of −inf is masked; a row needs at least one unmasked logit. */
  logits: Tensor;
  /** `[B, ceil(V / 32)] u32`: bit id % 32 of word id / 32 is 1 if the id is allowed; `null`: all are allowed. */
  mask: Tensor | null;
  /** `[B] f32`, 0 or above. */
  temperature: Tensor;
  /** `[B, 2] u32`: the random key of the sequence. */
  rng_key: Tensor;
  /** `[B] u32`: the position in its sequence of the token to sample. */
  position: Tensor;
  /** `[B] f32` of {@link topCutoff}: smaller logits are excluded; `null`: none. */
  cutoff: Tensor | null;
  /** At least {@link samplePartials} f32 elements. */
  partials: Tensor;
  /** `[B] u32`, overwritten. */
  token: Tensor;
  /** `[B] f32`, overwritten: under the sampled distribution, or under temperature 1 if the temperature is 0. */
  logprob: Tensor;
}

/**
 * Records a sample from softmax(logits / temperature) for every row by the Gumbel-max trick. The noise of an id depends
 * only on (rng_key, position, id), so a sequence gets the same tokens whatever runs with it. Temperature 0 takes the
 * largest logit, and the lowest id among equals.
 *
 * @throws {ShapeError} When the shapes do not match.
 * @source Maddison, Tarlow, Minka, "A* Sampling" (2014), §2.
 */
export function sampleToken(
  recorder: Recorder,
  tensors: SampleTensors,
  form: KernelForm = deviceForm(recorder.gpu),
): void {
  const { logits, partials, token, logprob, temperature } = tensors;
  const { rows, vocabulary, mask_words } = expectRows(tensors);
  expectShape(tensors.rng_key, "rng_key", [rows, 2]);
  for (const name of ["temperature", "position", "token", "logprob"] as const) {
    expectShape(tensors[name], name, [rows]);
  }
  if (tensors.cutoff) expectShape(tensors.cutoff, "cutoff", [rows]);
  const needed = samplePartials(rows, vocabulary);
  assert(elementCount(partials.shape) >= needed, `partials of ${rows} rows hold ${needed} elements`);
  const size = itemSize(vocabulary), slices = vocabularySlices(vocabulary);
  recorder.dispatch(
    partialsKernel(size),
    { rows, items: vocabulary / size, slices, mask_words, has_cutoff: tensors.cutoff ? 1 : 0 },
    { ...tensors, mask: tensors.mask ?? recorder.empty, cutoff: tensors.cutoff ?? recorder.empty },
    wrappedGrid(ceilDiv(rows * slices, THREADS)),
  );
  const operands = { partials, logits, temperature, token, logprob };
  recorder.dispatch(sampleKernel(form), { rows, vocabulary, slices }, operands, slicesGrid(form, rows));
}

/** The tensors of {@link topCutoff}. */
export interface TopTensors extends Pick<SampleTensors, "logits" | "mask" | "temperature"> {
  /** `[B] u32`; 0: all. */
  top_k: Tensor;
  /** `[B] f32`, above 0; 1: all. */
  top_p: Tensor;
  /** `[B] f32`, overwritten. */
  cutoff: Tensor;
}

/**
 * Records the lowest logit that remains after top_k and then top_p at the row's temperature. Both are exact; ids tied
 * with the last remaining one remain too.
 *
 * @throws {ShapeError} When the shapes do not match.
 * @source Holtzman et al., "The Curious Case of Neural Text Degeneration" (2020), §3.1.
 */
export function topCutoff(
  recorder: Recorder,
  tensors: TopTensors,
  form: KernelForm = deviceForm(recorder.gpu),
): void {
  const { rows, vocabulary, mask_words } = expectRows(tensors);
  for (const name of ["temperature", "top_k", "top_p", "cutoff"] as const) {
    expectShape(tensors[name], name, [rows]);
  }
  const size = itemSize(vocabulary);
  recorder.dispatch(
    cutoffKernel(form, size),
    { rows, items: vocabulary / size, mask_words },
    { ...tensors, mask: tensors.mask ?? recorder.empty },
    [form === "lanes" ? ceilDiv(rows, ROWS_PER_GROUP) : rows],
  );
}

function expectRows({ logits, mask }: Pick<SampleTensors, "logits" | "mask">) {
  const [rows, vocabulary] = expectShape(logits, "logits", 2);
  const mask_words = mask ? ceilDiv(vocabulary, 32) : 0;
  if (mask) expectShape(mask, "mask", [rows, mask_words]);
  return { rows, vocabulary, mask_words };
}
