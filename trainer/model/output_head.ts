/** From the hidden states after the last layer to logits. */

import { matmul } from "../../kernels/matmul/matmul.ts";
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
export function projectToLogits(
  { recorder, weights, compute, shape: { logit_soft_cap } }: Model,
  { normed, logits }: { normed: Tensor; logits: Tensor },
): void {
  matmul(recorder, "nt", { x: normed, weight: weights.output, y: logits }, { compute });
  if (logit_soft_cap !== null) softCap(recorder, { x: logits }, logit_soft_cap);
}
