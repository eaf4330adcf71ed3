/** The f64 reference of preference_loss, written for clarity. */

import type { PreferenceOptions } from "./preference_loss.ts";

/** Log-probabilities of the two completions of a pair, and the reference's. */
export interface PairReference {
  chosen: readonly number[];
  rejected: readonly number[];
  reference_chosen: readonly number[];
  reference_rejected: readonly number[];
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const mean = (values: readonly number[]) => sum(values) / values.length;
const logSigmoid = (x: number) => -Math.log1p(Math.exp(-x));
const logOdds = (values: readonly number[]) => mean(values) - Math.log(-Math.expm1(mean(values)));

/** The scores of both completions; the loss depends on their difference. */
export function preferenceScores(
  { chosen, rejected, reference_chosen, reference_rejected }: PairReference,
  { loss, beta }: PreferenceOptions,
): [chosen: number, rejected: number] {
  const score = {
    dpo: (own: readonly number[], reference: readonly number[]) => beta * (sum(own) - sum(reference)),
    ipo: (own: readonly number[], reference: readonly number[]) => mean(own) - mean(reference),
    simpo: (own: readonly number[]) => beta * mean(own),
    orpo: (own: readonly number[]) => logOdds(own),
  }[loss];
  return [score(chosen, reference_chosen), score(rejected, reference_rejected)];
}

/** The loss of one pair, divided by the pairs of the step. */
export function preferenceLossReference(pair: PairReference, options: PreferenceOptions): number {
  const { loss, beta, gamma, lambda, normalizer } = options;
  const [chosen, rejected] = preferenceScores(pair, options), x = chosen - rejected;
  const value = {
    dpo: () => -logSigmoid(x),
    ipo: () => (x - 1 / (2 * beta)) ** 2,
    simpo: () => -logSigmoid(x - gamma),
    orpo: () => -mean(pair.chosen) - lambda * logSigmoid(x),
  }[loss]();
  return value / normalizer;
}
