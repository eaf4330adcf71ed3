/** The keys of all randomness in rollouts. */

import { rngKey } from "../../core/random.ts";
import type { RolloutSampling } from "./rollout_options.ts";

/** The random key of a turn. Evaluations leave out the update: they use the same numbers before and after training. */
export function turnRngKey(
  sampling: RolloutSampling,
  at: { update: number; scenario: string; member: number; turn: number },
): readonly [number, number] {
  const { update, scenario, member, turn } = at;
  return sampling.domain === "train"
    ? rngKey(sampling.seed, update, scenario, member, turn)
    : rngKey(sampling.seed, sampling.domain, scenario, member, turn);
}

/**
 * The seed of a group's environments, so that all members start equal. Evaluations leave out the update, as in
 * {@link turnRngKey}.
 */
export function environmentSeed(
  { domain, seed }: RolloutSampling,
  { update, scenario }: { update: number; scenario: string },
): number {
  const key = domain === "train"
    ? rngKey(seed, "environment", update, scenario)
    : rngKey(seed, domain, "environment", scenario);
  return key[0];
}
