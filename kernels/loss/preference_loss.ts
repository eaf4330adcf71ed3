/** Preference losses. The formulas are in the shader, and the terms of each loss in the table of the losses. */

import { assert } from "../../core/errors.ts";
import {
  needsReference,
  type PairLossOptions,
  type Penalty,
  PREFERENCE_LOSSES,
  type PreferenceLoss,
} from "../../core/preference_loss.ts";
import { defineKernel, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, kernelFamily } from "../variant.ts";
import logisticWgsl from "./logistic_penalty.wgsl" with { type: "text" };
import preferenceWgsl from "./preference_loss.wgsl" with { type: "text" };
import squaredWgsl from "./squared_penalty.wgsl" with { type: "text" };

const THREADS = 64;

const PENALTIES: Readonly<Record<Penalty, WgslPart>> = {
  logistic: { file: "logistic_penalty.wgsl", text: logisticWgsl },
  squared: { file: "squared_penalty.wgsl", text: squaredWgsl },
};

const kernel = kernelFamily((loss: PreferenceLoss) => {
  const { penalty, terms } = PREFERENCE_LOSSES[loss];
  return defineKernel({
    name: "preference_loss",
    wgsl: [
      constantsPart({ threads: THREADS, ...terms }),
      PENALTIES[penalty],
      { file: "preference_loss.wgsl", text: preferenceWgsl },
    ],
    params: {
      pairs: "u32",
      total: "u32",
      beta: "f32",
      gamma: "f32",
      lambda: "f32",
      normalizer: "f32",
    },
    inputs: ["logprob", "reference_logprob", "ranges"],
    outputs: ["g", "results"],
  });
});

/** The tensors of {@link preferenceLoss}. */
export interface PreferenceTensors {
  /** `[R] f32` each. */
  logprob: Tensor;
  /** Null only for the losses without a reference. */
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
  assert(reference_logprob || !needsReference(loss), `${loss} without log-probabilities of a reference`);
  recorder.dispatch(
    kernel(loss),
    { pairs, total, ...options },
    { logprob, reference_logprob: reference_logprob ?? logprob, ranges, g, results },
    [ceilDiv(pairs, THREADS)],
  );
}
