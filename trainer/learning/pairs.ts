/** Samples that are pairs of completions. */

import { ServiceError } from "../../core/errors.ts";
import { PREFERENCE_LOSSES } from "../../core/preference_loss.ts";
import type { LossRequest, TrainingSample } from "../engine/protocol.ts";

type PreferenceRequest = Extract<LossRequest, { type: "preference" }>;

/**
 * Every trajectory is a pair: samples of its chosen completion, then samples of its rejected one, each with a token to train.
 *
 * @throws {ServiceError} `config_invalid` for samples that are not, and where `dpo` or `ipo` has no reference.
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
