/** From the residual stream behind the last layer to logits. */

import { matmul } from "../../kernels/matmul/matmul.ts";
import { rmsNorm } from "../../kernels/rms_norm/rms_norm.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import type { Model } from "./transformer.ts";

/** Records normed = norm(hidden), `[N, C]` each; rstd `[N]` is for the backward pass. */
export function normalizeOutput(
  { recorder, weights, shape }: Model,
  { hidden, normed, rstd }: { hidden: Tensor; normed: Tensor; rstd: Tensor },
): void {
  rmsNorm(recorder, { x: hidden, gamma: weights.output_norm, y: normed, rstd }, shape.norm_eps);
}

/** Records logits `[N, V]` = normed `[N, C]` · output matrixᵀ. */
export function projectToLogits(
  { recorder, weights, compute }: Model,
  { normed, logits }: { normed: Tensor; logits: Tensor },
): void {
  matmul(recorder, "nt", { x: normed, weight: weights.output, y: logits }, { compute });
}
