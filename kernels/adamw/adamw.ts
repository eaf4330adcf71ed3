/** AdamW over flat arrays, with clipping by the global norm. The formulas are in the shaders. */

import { assert } from "../../core/errors.ts";
import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape, roundUp } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { itemPart, type ItemSize, itemSize, kernelFamily } from "../variant.ts";
import adamwWgsl from "./adamw.wgsl" with { type: "text" };
import prepareWgsl from "./adamw_prepare.wgsl" with { type: "text" };

const THREADS = 64;
/** Threads of the entire grid; each advances by this stride. */
const MAX_THREADS = 65_536;

const prepareKernel = defineKernel({
  name: "adamw_prepare",
  wgsl: prepareWgsl,
  params: { max_norm: "f32" },
  inputs: ["norm_sq"],
  outputs: ["stats"],
});

const adamwKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "adamw",
    wgsl: [itemPart(size), { file: "adamw.wgsl", text: adamwWgsl }],
    params: {
      items: "u32",
      threads: "u32",
      beta1: "f32",
      rest1: "f32",
      beta2: "f32",
      rest2: "f32",
      step_size: "f32",
      correction2: "f32",
      eps: "f32",
      decay: "f32",
    },
    inputs: ["g"],
    outputs: ["p", "m", "v", "stats"],
  })
);

/** Parameters p, gradients g and moments m, v, all `[P] f32`. */
export interface AdamwArrays {
  p: Tensor;
  g: Tensor;
  m: Tensor;
  v: Tensor;
}

/** What is updated, in one or several parts; Σ g² of all gradients `[1] f32`; stats `[4] u32`. */
export interface AdamwTensors {
  parts: readonly AdamwArrays[];
  norm_sq: Tensor;
  stats: Tensor;
}

export interface AdamwOptions {
  lr: number;
  beta1: number;
  beta2: number;
  eps: number;
  weight_decay: number;
  /** The gradient is scaled down to this norm; 0 leaves it alone. */
  max_grad_norm: number;
  /** The number of this step, from 1: it corrects the moments' bias. */
  step: number;
}

/** Statistics of an AdamW step. */
export interface AdamwStats {
  /** The norm was not finite, so nothing has changed. */
  skipped: boolean;
  /** Parameters whose √v̂ is below eps: their step is smaller than lr. */
  eps_dominated: number;
  clipped: boolean;
  /** The factor on the gradient. */
  clip_factor: number;
}

/** Reads the words of `stats`. */
export function parseAdamwStats(words: Uint32Array): AdamwStats {
  const [skipped, eps_dominated, clipped] = words;
  return {
    skipped: skipped === 1,
    eps_dominated: eps_dominated!,
    clipped: clipped === 1,
    clip_factor: new Float32Array(words.buffer, words.byteOffset + 12, 1)[0]!,
  };
}

/**
 * Records one step of AdamW: updates p, m and v, clips the gradient by its global norm (as PyTorch's
 * `clip_grad_norm_`), with decoupled weight decay. If `norm_sq` is not finite nothing changes. Overwrites `stats`.
 *
 * @throws {ShapeError} When the shapes do not match.
 * @source Loshchilov, Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.
 */
export function adamw(
  recorder: Recorder,
  { parts, norm_sq, stats }: AdamwTensors,
  options: AdamwOptions,
): void {
  expectShape(norm_sq, "norm_sq", [1]);
  expectShape(stats, "stats", [4]);
  const { lr, beta1, beta2, eps, weight_decay, max_grad_norm, step } = options;
  assert(step >= 1, "AdamW's steps count from 1");
  const factors = {
    beta1,
    rest1: 1 - beta1,
    beta2,
    rest2: 1 - beta2,
    step_size: lr / (1 - beta1 ** step),
    correction2: Math.sqrt(1 - beta2 ** step),
    eps,
    decay: lr * weight_decay,
  };
  recorder.dispatch(prepareKernel, { max_norm: max_grad_norm }, { norm_sq, stats }, [1]);
  for (const arrays of parts) {
    const [count] = expectShape(arrays.p, "p", 1);
    for (const name of ["g", "m", "v"] as const) expectShape(arrays[name], name, [count]);
    const size = itemSize(count), items = count / size;
    const threads = Math.min(MAX_THREADS, roundUp(items, THREADS));
    const params = { items, threads, ...factors };
    recorder.dispatch(adamwKernel(size), params, { ...arrays, stats }, [ceilDiv(threads, THREADS)]);
  }
}
