/** The f64 reference of preference_loss. */

import { pairLoss } from "../../core/preference_loss.ts";
import type { PreferenceOptions } from "./preference_loss.ts";

/** Log-probabilities of the two completions of a pair, and the reference's. */
export interface PairReference {
  chosen: readonly number[];
  rejected: readonly number[];
  reference_chosen: readonly number[];
  reference_rejected: readonly number[];
}

const ofPair = (
  { chosen, rejected, reference_chosen, reference_rejected }: PairReference,
  options: PreferenceOptions,
) =>
  pairLoss(
    { logprobs: chosen, reference_logprobs: reference_chosen },
    { logprobs: rejected, reference_logprobs: reference_rejected },
    options,
  );

/** The scores of both completions; the loss depends on their difference. */
export function preferenceScores(
  pair: PairReference,
  options: PreferenceOptions,
): [chosen: number, rejected: number] {
  return ofPair(pair, options).scores;
}

/** The loss of one pair, divided by the pairs of the step. */
export function preferenceLossReference(pair: PairReference, options: PreferenceOptions): number {
  return ofPair(pair, options).loss / options.normalizer;
}
