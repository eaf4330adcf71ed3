/** Checks the samples of a preference loss. */

import { ServiceError } from "../../core/errors.ts";
import { PREFERENCE_LOSSES } from "../../core/preference_loss.ts";
import type { LossRequest, TrainingSample } from "../protocol/protocol.ts";

type PreferenceRequest = Extract<LossRequest, { type: "preference" }>;

/**
 * Checks that every trajectory is a pair: first the samples of the chosen completion, then those of the rejected one.
 * Each completion must have a token to train.
 *
 * @throws {ServiceError} `config_invalid` for other samples, and for `dpo` or `ipo` without reference log-probabilities.
 */
export function checkPairs(samples: readonly TrainingSample[], { loss, rejected }: PreferenceRequest): void {
  const refuse = (reason: string): never => {
    throw new ServiceError("config_invalid", `Cannot train on pairs: ${reason}`);
  };
  if (rejected.length !== samples.length) {
    refuse(`${rejected.length} entries of "rejected" for ${samples.length} samples`);
  }
  if (PREFERENCE_LOSSES[loss].has_reference && samples.some((sample) => sample.reference_logprobs === null)) {
    refuse(`the loss ${loss} needs the log-probabilities of a reference policy`);
  }
  const pairs = Map.groupBy(samples.keys(), (i) => samples[i]!.trajectory);
  for (const [trajectory, members] of pairs) {
    const first_rejected = members.findIndex((i) => rejected[i]);
    const sides = [members.slice(0, Math.max(0, first_rejected)), members.slice(Math.max(0, first_rejected))];
    if (first_rejected < 1 || sides[1]!.some((i) => !rejected[i])) {
      refuse(`trajectory ${trajectory} is no chosen completion followed by a rejected one`);
    }
    if (sides.some((side) => !side.some((i) => samples[i]!.loss_mask.includes(1)))) {
      refuse(`a completion of trajectory ${trajectory} has no token to train`);
    }
  }
}
