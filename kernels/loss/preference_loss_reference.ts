/** The f64 reference of preference_loss. */

import { pairLoss } from "../../core/preference_loss.ts";
import type { PreferenceLossOptions } from "./preference_loss.ts";

/** Log-probabilities of the two completions of a pair, and the reference's. */
export interface PairReference {
  chosen: readonly number[];
  rejected: readonly number[];
  reference_chosen: readonly number[];
  reference_rejected: readonly number[];
}

const ofPair = (
  { chosen, rejected, reference_chosen, reference_rejected }: PairReference,
  options: PreferenceLossOptions,
) =>
  pairLoss(
    { logprobs: chosen, reference_logprobs: reference_chosen },
    { logprobs: rejected, reference_logprobs: reference_rejected },
    options,
  );

/** The scores of both completions; the loss depends on their difference. */
export function preferenceScores(
  pair: PairReference,
  options: PreferenceLossOptions,
): [chosen: number, rejected: number] {
  return ofPair(pair, options).scores;
}

/** The loss of one pair, divided by the pairs of the step. */
export function preferenceLossReference(pair: PairReference, options: PreferenceLossOptions): number {
  return ofPair(pair, options).loss / options.normalizer;
}
