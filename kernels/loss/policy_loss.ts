/**
 * Losses as functions of each target's log-probability. A loss is defined by the derivative `g` that it passes to
 * `crossEntropyBackward`. The formulas are in the shaders.
 */

import { assert } from "../../core/errors.ts";
import { defineKernel, type Operands } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import policyWgsl from "./policy_loss.wgsl" with { type: "text" };
import sequenceWgsl from "./sequence_ratio.wgsl" with { type: "text" };
import sftWgsl from "./sft_loss.wgsl" with { type: "text" };

const THREADS = 64;

const policyKernel = defineKernel({
  name: "policy_loss",
  wgsl: policyWgsl,
  params: {
    rows: "u32",
    first_row: "u32",
    total: "u32",
    is_log_ratio: "u32",
    clip_low: "f32",
    clip_high: "f32",
    kl_coefficient: "f32",
    normalizer: "f32",
  },
  inputs: ["logprob", "old", "reference_logprob", "advantage", "weight"],
  outputs: ["g", "results"],
});

const sequenceKernel = defineKernel({
  name: "sequence_ratio",
  wgsl: sequenceWgsl,
  params: { trajectories: "u32" },
  inputs: ["logprob", "old_logprob", "ranges"],
  outputs: ["log_ratio"],
});

const sftKernel = defineKernel({
  name: "sft_loss",
  wgsl: sftWgsl,
  params: { rows: "u32", first_row: "u32", total: "u32", normalizer: "f32" },
  inputs: ["logprob", "weight"],
  outputs: ["g", "results"],
});

/** A run of rows within the `[R]` arrays. */
export interface RowRange {
  first_row: number;
  rows: number;
}

/** The source of the importance ratio, each `[R] f32`; `null`: the policy itself sampled, and the ratio is 1. */
export type RatioSource =
  | { readonly old_logprob: Tensor }
  | { readonly log_ratio: Tensor }
  | null;

/** The tensors of {@link policyLoss}; arrays are `[R] f32`. */
export interface PolicyTensors {
  logprob: Tensor;
  ratio: RatioSource;
  /** `null` without a reference: the KL term is then 0. */
  reference_logprob: Tensor | null;
  advantage: Tensor;
  /** A constant factor on the policy term, not on the KL term: truncated importance sampling. */
  weight: Tensor;
  /** ∂loss/∂logprob, overwritten. */
  g: Tensor;
  /** `[4, R] f32`, overwritten: loss, ratio, clipped (−1 below, 1 above, 0 not), k3. */
  results: Tensor;
}

export interface PolicyOptions extends RowRange {
  clip_low: number;
  clip_high: number;
  kl_coefficient: number;
  /** M · N: trained trajectories of the step times the token budget. The only division. */
  normalizer: number;
}

/**
 * Records, for each row, the clipped policy loss with its k3 term and the derivative with respect to the row's
 * log-probability. With `old_logprob` the ratio is the token's. With `log_ratio` of {@link sequenceRatio} it is the
 * trajectory's, and the gradient stays that of the token's own log-probability (GSPO-token).
 *
 * @throws {ShapeError} When the shapes do not match.
 * @source Yu et al., "DAPO" (2025), equation 8; Zheng et al., "Group Sequence Policy Optimization" (2025), §4.3.
 */
export function policyLoss(recorder: Recorder, tensors: PolicyTensors, options: PolicyOptions): void {
  const { logprob, ratio, advantage, weight, g, results } = tensors;
  const { rows, first_row, clip_low, clip_high, kl_coefficient, normalizer } = options;
  const total = expectRange(logprob, options);
  // With the policy as its own old policy the log ratio is 0; as its own reference, d is 0.
  const old = ratio === null ? logprob : "log_ratio" in ratio ? ratio.log_ratio : ratio.old_logprob;
  const reference_logprob = tensors.reference_logprob ?? logprob;
  const named = { old, reference_logprob, advantage, weight, g };
  for (const [name, tensor] of Object.entries(named)) expectShape(tensor, name, [total]);
  expectShape(results, "results", [4, total]);
  const is_log_ratio = ratio !== null && "log_ratio" in ratio ? 1 : 0;
  recorder.dispatch(
    policyKernel,
    { rows, first_row, total, is_log_ratio, clip_low, clip_high, kl_coefficient, normalizer },
    { ...named, logprob, results },
    [ceilDiv(rows, THREADS)],
  );
}

/**
 * Records the mean log ratio of each trajectory at each of its rows. It needs the log-probabilities of all rows of the
 * trajectory: every turn and every fragment.
 *
 * @param tensors logprob, old_logprob, log_ratio `[R] f32`; ranges `[J, 2] u32`: first row, and the row after the last.
 * @throws {ShapeError} When the shapes do not match.
 */
export function sequenceRatio(recorder: Recorder, tensors: Operands<typeof sequenceKernel>): void {
  const [total] = expectShape(tensors.logprob, "logprob", 1);
  for (const name of ["old_logprob", "log_ratio"] as const) expectShape(tensors[name], name, [total]);
  const [trajectories] = expectShape(tensors.ranges, "ranges", 2);
  expectShape(tensors.ranges, "ranges", [trajectories, 2]);
  recorder.dispatch(sequenceKernel, { trajectories }, tensors, [ceilDiv(trajectories, THREADS)]);
}

/**
 * Records `loss = −weight · logprob / normalizer` and its derivative for each row.
 *
 * @param tensors logprob, weight, g `[R] f32`; results `[4, R] f32` as in {@link policyLoss}, with ratio 1.
 * @param options normalizer: Σ weight over all of the optimiser step.
 * @throws {ShapeError} When the shapes do not match.
 */
export function sftLoss(
  recorder: Recorder,
  tensors: Operands<typeof sftKernel>,
  options: RowRange & { normalizer: number },
): void {
  const { rows, first_row, normalizer } = options;
  const total = expectRange(tensors.logprob, options);
  for (const name of ["weight", "g"] as const) expectShape(tensors[name], name, [total]);
  expectShape(tensors.results, "results", [4, total]);
  recorder.dispatch(sftKernel, { rows, first_row, total, normalizer }, tensors, [
    ceilDiv(rows, THREADS),
  ]);
}

function expectRange(logprob: Tensor, { first_row, rows }: RowRange): number {
  const [total] = expectShape(logprob, "logprob", 1);
  assert(first_row + rows <= total, `rows ${first_row} to ${first_row + rows} of ${total}`);
  return total;
}
