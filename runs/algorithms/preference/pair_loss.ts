/** The preference loss from log-probabilities, in f64, as evaluations report it. */

import type { LossRequest } from "../../../trainer/engine/protocol.ts";

/** A preference loss and its parameters. */
export type PairLossOptions = Pick<
  Extract<LossRequest, { type: "preference" }>,
  "loss" | "beta" | "gamma" | "lambda"
>;

/** Log-probabilities of a completion's trained tokens; the reference's are empty for losses without a reference. */
export interface ScoredCompletion {
  logprobs: readonly number[];
  reference_logprobs: readonly number[];
}

/** Whether a loss compares with a reference policy. */
export function hasReference({ loss }: Pick<PairLossOptions, "loss">): boolean {
  return loss === "dpo" || loss === "ipo";
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => sum(values) / values.length;

/** −log σ(x) */
const softplusOfMinus = (x: number) => Math.max(-x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** As in the kernel: the odds of a nearly certain completion would be unbounded. */
const LEAST_DOUBT = 1e-6;

/**
 * Σy is the sum of a completion's log-probabilities, ȳ their mean; chosen w, rejected l, margin x = s(w) − s(l):
 *
 * - dpo: s = β (Σy − Σy_ref), loss −log σ(x)
 * - ipo: s = ȳ − ȳ_ref, loss (x − 1/(2β))²
 * - simpo: s = β ȳ, loss −log σ(x − γ)
 * - orpo: s = ȳ − log(1 − exp(ȳ)), loss −w̄ − λ log σ(x)
 *
 * @source as kernels/loss/preference_loss.wgsl.
 */
export function pairLoss(
  chosen: ScoredCompletion,
  rejected: ScoredCompletion,
  { loss, beta, gamma, lambda }: PairLossOptions,
): { loss: number; margin: number } {
  const scores = {
    dpo: (y: ScoredCompletion) => beta * (sum(y.logprobs) - sum(y.reference_logprobs)),
    ipo: (y: ScoredCompletion) => mean(y.logprobs) - mean(y.reference_logprobs),
    simpo: (y: ScoredCompletion) => beta * mean(y.logprobs),
    orpo: ({ logprobs }: ScoredCompletion) =>
      mean(logprobs) - Math.log(Math.max(-Math.expm1(mean(logprobs)), LEAST_DOUBT)),
  };
  const margin = scores[loss](chosen) - scores[loss](rejected);
  const losses = {
    dpo: () => softplusOfMinus(margin),
    ipo: () => (margin - 1 / (2 * beta)) ** 2,
    simpo: () => softplusOfMinus(margin - gamma),
    orpo: () => lambda * softplusOfMinus(margin) - mean(chosen.logprobs),
  };
  return { loss: losses[loss](), margin };
}
