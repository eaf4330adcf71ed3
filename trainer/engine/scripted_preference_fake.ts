/** The losses of pairs for the scripted model, from their definitions, with numeric derivatives. */

import { preferenceLossReference, preferenceScores } from "../../kernels/loss/preference_loss_reference.ts";
import { checkPairs } from "../learning/losses.ts";
import type { LossRequest, TrainingSample } from "../protocol/protocol.ts";

/** The contribution of one trained token to a loss. */
export interface LossTerm {
  loss: number;
  /** ∂loss/∂logπ. */
  gradient: number;
  /** The importance ratio; null for a preference loss. */
  ratio: number | null;
  /** As in `SampleMeasure`. */
  clipped: number;
  /** The score of the token's completion; null for other losses than preference losses. */
  score: number | null;
}

/** The half step of the central differences. It gives an error of about 1e-10. */
const STEP = 1e-5;

/** The terms of all trained tokens, by sample. The loss of a pair is in the term of its first token. */
export function pairTerms(
  samples: readonly TrainingSample[],
  logprobs: readonly Float64Array[],
  loss: Extract<LossRequest, { type: "preference" }>,
): LossTerm[][] {
  checkPairs(samples, loss);
  const references = samples.map(({ loss_mask, reference_logprobs }) =>
    Float64Array.from(reference_logprobs ?? loss_mask).filter((_, t) => loss_mask[t] === 1)
  );
  const out: LossTerm[][] = samples.map(() => []);
  for (const members of Map.groupBy(samples.keys(), (i) => samples[i]!.trajectory).values()) {
    const of = (values: readonly Float64Array[], side: boolean) =>
      members.filter((i) => loss.rejected[i] === side).flatMap((i) => [...values[i]!]);
    const pair = {
      chosen: of(logprobs, false),
      rejected: of(logprobs, true),
      reference_chosen: of(references, false),
      reference_rejected: of(references, true),
    };
    const moved = (side: "chosen" | "rejected", by: number) =>
      preferenceLossReference({ ...pair, [side]: pair[side].map((lp, k) => k === 0 ? lp + by : lp) }, loss);
    const scores = preferenceScores(pair, loss);
    for (const i of members) {
      const side = loss.rejected[i] ? "rejected" : "chosen";
      const gradient = (moved(side, STEP) - moved(side, -STEP)) / (2 * STEP);
      const score = scores[loss.rejected[i] ? 1 : 0];
      out[i] = [...logprobs[i]!].map(() => ({ loss: 0, gradient, ratio: null, clipped: 0, score }));
    }
    out[members[0]!]![0]!.loss = preferenceLossReference(pair, loss);
  }
  return out;
}
