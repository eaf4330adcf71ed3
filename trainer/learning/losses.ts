/** The types of losses: what each records, and what it measures. The output head knows none of them by name. */

import { assert, ServiceError } from "../../core/errors.ts";
import { needsReference } from "../../core/preference_loss.ts";
import {
  policyLoss,
  type RatioSource,
  type RowRange,
  sequenceRatio,
  sftLoss,
} from "../../kernels/loss/policy_loss.ts";
import { preferenceLoss } from "../../kernels/loss/preference_loss.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import type { Tensor } from "../../kernels/tensor.ts";
import type { LossRequest, SampleMeasure, TrainingSample } from "../protocol/protocol.ts";
import type { MicroBatch } from "./packing.ts";
import type { StepViews } from "./step_arrays.ts";

/** A micro-batch of which all log-probabilities are known. */
export interface TrajectoryPass {
  recorder: Recorder;
  batch: MicroBatch;
  arrays: StepViews;
  /** Uploads indices of the batch's targets, as `[n, width]` rows of the arrays. */
  ranges(width: number, indices: readonly number[]): Tensor;
}

/** The loss of a step. It has at least one of the two records. */
export interface Loss {
  /**
   * Records what depends on the log-probabilities of all tokens of a trajectory, which are then in one micro-batch; null:
   * nothing does.
   */
  readonly recordTrajectories: ((pass: TrajectoryPass) => void) | null;
  /** Records the loss of some rows and its derivatives with respect to their log-probabilities; null: that is done. */
  readonly recordRows: ((recorder: Recorder, arrays: StepViews, range: RowRange) => void) | null;
  /** Reads the second row of the results, at the targets of one sample. */
  measure(values: Float32Array): Pick<SampleMeasure, "ratios" | "score">;
}

type RequestOf<T extends LossRequest["type"]> = Extract<LossRequest, { type: T }>;
type Samples = readonly TrainingSample[];

/**
 * The loss of a step on these samples.
 *
 * @throws {ServiceError} `config_invalid` as {@link checkPairs}.
 */
export function lossOf(request: LossRequest, samples: Samples): Loss {
  switch (request.type) {
    case "sft":
      return sftOf(request);
    case "policy":
      return policyOf(request, samples);
    case "preference":
      return preferenceOf(request, samples);
  }
}

const asRatios: Loss["measure"] = (ratios) => ({ ratios, score: null });

function sftOf({ normalizer }: RequestOf<"sft">): Loss {
  return {
    recordTrajectories: null,
    recordRows: (recorder, arrays, range) => sftLoss(recorder, arrays, { ...range, normalizer }),
    measure: asRatios,
  };
}

function policyOf(
  { type: _, importance_sampling_level, ...options }: RequestOf<"policy">,
  samples: Samples,
): Loss {
  const has_old_logprobs = has(samples, "old_logprobs"), has_reference = has(samples, "reference_logprobs");
  const has_sequence_ratio = importance_sampling_level === "sequence" && has_old_logprobs;
  const ratioOf = ({ log_ratio, old_logprob }: StepViews): RatioSource =>
    has_sequence_ratio ? { log_ratio } : has_old_logprobs ? { old_logprob } : null;
  return {
    recordTrajectories: has_sequence_ratio
      ? ({ recorder, batch, arrays, ranges }) =>
        sequenceRatio(recorder, { ...arrays, ranges: ranges(2, batch.trajectories.flat()) })
      : null,
    recordRows(recorder, arrays, range) {
      const reference_logprob = has_reference ? arrays.reference_logprob : null;
      policyLoss(recorder, { ...arrays, ratio: ratioOf(arrays), reference_logprob }, {
        ...options,
        ...range,
      });
    },
    measure: asRatios,
  };
}

function preferenceOf(request: RequestOf<"preference">, samples: Samples): Loss {
  const has_reference = has(samples, "reference_logprobs");
  checkPairs(samples, request);
  const { type: _, rejected, ...options } = request;
  return {
    recordTrajectories({ recorder, batch, arrays, ranges }) {
      const pairs = batch.trajectories.flatMap(([from, to]) => {
        const is_rejected = batch.targets.slice(from, to).map(({ sample }) => rejected[sample]!);
        return [from, from + is_rejected.indexOf(true), to];
      });
      const reference_logprob = has_reference ? arrays.reference_logprob : null;
      preferenceLoss(recorder, { ...arrays, reference_logprob, ranges: ranges(3, pairs) }, options);
    },
    recordRows: null,
    measure: (scores) => ({ ratios: new Float32Array(0), score: scores[0]! }),
  };
}

/** Whether the samples have an optional array. Either all of them have it, or none. */
function has(samples: Samples, name: "old_logprobs" | "reference_logprobs"): boolean {
  const count = samples.filter((sample) => sample[name] !== null).length;
  assert(count === 0 || count === samples.length, `${name} are given for all samples of a step or for none`);
  return count > 0;
}

/**
 * Checks that every trajectory is a pair: first the samples of the chosen completion, then those of the rejected one.
 * Each completion must have a token to train.
 *
 * @throws {ServiceError} `config_invalid` for other samples, and for a loss with a reference without its log-probabilities.
 */
export function checkPairs(samples: Samples, { loss, rejected }: RequestOf<"preference">): void {
  const refuse = (reason: string): never => {
    throw new ServiceError("config_invalid", `Cannot train on pairs: ${reason}`);
  };
  if (rejected.length !== samples.length) {
    refuse(`${rejected.length} entries of "rejected" for ${samples.length} samples`);
  }
  if (needsReference(loss) && samples.some((sample) => sample.reference_logprobs === null)) {
    refuse(`the loss ${loss} needs the log-probabilities of a reference policy`);
  }
  const pairs = Map.groupBy(samples.keys(), (i) => samples[i]!.trajectory);
  for (const [trajectory, members] of pairs) {
    const first_rejected = members.findIndex((i) => rejected[i]);
    const split = Math.max(0, first_rejected);
    const chosen = members.slice(0, split), others = members.slice(split);
    if (first_rejected < 1 || others.some((i) => !rejected[i])) {
      refuse(`trajectory ${trajectory} is no chosen completion followed by a rejected one`);
    }
    if ([chosen, others].some((completion) => !completion.some((i) => samples[i]!.loss_mask.includes(1)))) {
      refuse(`a completion of trajectory ${trajectory} has no token to train`);
    }
  }
}
