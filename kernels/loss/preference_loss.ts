/** Preference losses. The formulas are in the shader. */

import { type PairLossOptions, PREFERENCE_LOSS_NAMES } from "../../core/preference_loss.ts";
import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import preferenceWgsl from "./preference_loss.wgsl" with { type: "text" };

const THREADS = 64;

const kernel = defineKernel({
  name: "preference_loss",
  wgsl: preferenceWgsl,
  params: {
    pairs: "u32",
    kind: "u32",
    total: "u32",
    beta: "f32",
    gamma: "f32",
    lambda: "f32",
    normalizer: "f32",
  },
  inputs: ["logprob", "reference_logprob", "ranges"],
  outputs: ["g", "results"],
});

/** The tensors of {@link preferenceLoss}. */
export interface PreferenceTensors {
  /** `[R] f32` each. */
  logprob: Tensor;
  /** Null for the losses without a reference, simpo and orpo. */
  reference_logprob: Tensor | null;
  /**
   * `[P, 3] u32`: the first row of the chosen completion, the first row of the rejected one, and the row after that.
   */
  ranges: Tensor;
  /** `[R] f32`, ∂loss/∂logprob, overwritten for the rows of the pairs. */
  g: Tensor;
  /** `[4, R] f32`, overwritten likewise: a pair's loss in its first row, and the score of each row's completion. */
  results: Tensor;
}

export interface PreferenceLossOptions extends PairLossOptions {
  /** Pairs of the optimiser step. The only division. */
  normalizer: number;
}

/**
 * Records the losses of pairs and their derivatives. It needs the log-probabilities of all rows of a pair.
 *
 * @throws {ShapeError} When the shapes do not match.
 */
export function preferenceLoss(
  recorder: Recorder,
  tensors: PreferenceTensors,
  { loss, ...options }: PreferenceLossOptions,
): void {
  const { logprob, reference_logprob, ranges, g, results } = tensors;
  const [total] = expectShape(logprob, "logprob", 1);
  if (reference_logprob) expectShape(reference_logprob, "reference_logprob", [total]);
  const [pairs] = expectShape(ranges, "ranges", 2);
  expectShape(ranges, "ranges", [pairs, 3]);
  expectShape(g, "g", [total]);
  expectShape(results, "results", [4, total]);
  recorder.dispatch(
    kernel,
    { pairs, kind: PREFERENCE_LOSS_NAMES.indexOf(loss), total, ...options },
    { logprob, reference_logprob: reference_logprob ?? logprob, ranges, g, results },
    [ceilDiv(pairs, THREADS)],
  );
}
