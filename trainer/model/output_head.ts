/** From the hidden states after the last layer to logits. */

import { matmul, type MatmulOperands, takesNorm } from "../../kernels/matmul/matmul.ts";
import { rmsNorm } from "../../kernels/rms_norm/rms_norm.ts";
import { softCap } from "../../kernels/soft_cap/soft_cap.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import type { Model } from "./transformer.ts";

/** Records `normed = rmsNorm(hidden)`, `[N, C]` each, and `rstd` = 1 / rms `[N]` for the backward pass. */
export function normalizeOutput(
  { recorder, weights, shape }: Model,
  { hidden, normed, rstd }: { hidden: Tensor; normed: Tensor; rstd: Tensor },
): void {
  rmsNorm(recorder, { x: hidden, gamma: weights.output_norm, y: normed, rstd }, shape.norm_eps);
}

/** Records logits `[N, V]` = normed `[N, C]` · outputᵀ, with the soft cap of the model. */
export function projectToLogits(model: Model, { normed, logits }: { normed: Tensor; logits: Tensor }): void {
  project(model, { x: normed, y: logits });
}

/** Records the logits of hidden states; `normed` and `rstd` may be used or not. */
export function hiddenToLogits(
  model: Model,
  { hidden, normed, rstd, logits }: { hidden: Tensor; normed: Tensor; rstd: Tensor; logits: Tensor },
): void {
  const { recorder: { gpu }, weights, shape: { norm_eps: eps } } = model;
  if (takesNorm(gpu, hidden.shape[0]!, weights.output)) {
    return project(model, { x: hidden, norm: { gamma: weights.output_norm, eps }, y: logits });
  }
  normalizeOutput(model, { hidden, normed, rstd });
  projectToLogits(model, { normed, logits });
}

function project(
  { recorder, weights, compute, shape: { logit_soft_cap } }: Model,
  operands: Pick<MatmulOperands, "x" | "norm" | "y">,
): void {
  matmul(recorder, "nt", { ...operands, weight: weights.output }, { compute });
  if (logit_soft_cap !== null) softCap(recorder, { x: operands.y }, logit_soft_cap);
}
