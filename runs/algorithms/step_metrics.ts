/** Metrics of an optimiser step. */

import type {
  LossRequest,
  OptimizerRequest,
  SampleMeasure,
  TrainingSample,
  TrainStepResult,
} from "../../trainer/protocol/protocol.ts";

export type Metrics = Record<string, number>;

/** Log-ratios are clamped to this magnitude, as in the loss. */
const MAX_LOG_RATIO = 20;

export interface StepFacts {
  result: TrainStepResult;
  samples: readonly TrainingSample[];
  loss: LossRequest;
  optimizer: OptimizerRequest;
}

/** Values of a sample's trained tokens, in the order of its mask. */
export function atMask(sample: TrainingSample, values: ArrayLike<number>): number[] {
  const picked: number[] = [];
  sample.loss_mask.forEach((m, t) => m && picked.push(values[t]!));
  return picked;
}

/** Metrics of the optimiser, the policy and the type of the loss; means run over the step's trained tokens. */
export function stepMetrics(facts: StepFacts): Metrics {
  const { result, loss, optimizer } = facts;
  const { max_grad_norm, learning_rate } = optimizer;
  const metrics: Metrics = {
    [`loss/${loss.type}`]: result.loss,
    "optimizer/grad_norm": result.grad_norm,
    "optimizer/clip_hit": max_grad_norm > 0 && result.grad_norm > max_grad_norm ? 1 : 0,
    "optimizer/learning_rate": learning_rate,
    "optimizer/eps_dominated_fraction": result.eps_dominated_fraction,
  };
  const { samples } = result;
  const tokens = samples.reduce((sum, { logprobs }) => sum + logprobs.length, 0);
  if (tokens === 0) return metrics;
  return {
    ...metrics,
    "policy/logprob_mean": sum(samples.map((sample) => sample.logprobs)) / tokens,
    "policy/entropy": sum(samples.map((sample) => sample.entropies)) / tokens,
    ...ofLossType(facts, tokens),
  };
}

/** The metrics of a type of losses. A preference loss is measured by its algorithm, which knows the pairs. */
function ofLossType({ result, samples, loss }: StepFacts, tokens: number): Metrics {
  switch (loss.type) {
    case "sft":
    case "preference":
      return {};
    case "policy":
      return {
        ...ratioMetrics(result.samples, tokens),
        ...(loss.kl_coefficient > 0 && {
          "kl/reference": meanReferenceKl(samples, result.samples.map((sample) => sample.logprobs)),
        }),
      };
  }
}

function ratioMetrics(measured: readonly SampleMeasure[], tokens: number): Metrics {
  const count = (side: number) =>
    measured.reduce((n, { clipped }) => n + clipped.filter((c) => c === side).length, 0);
  return {
    "ratio/mean": sum(measured.map((sample) => sample.ratios)) / tokens,
    "ratio/max": measured.reduce((top, { ratios }) => ratios.reduce((a, b) => Math.max(a, b), top), 0),
    "ratio/clipped_fraction_low": count(-1) / tokens,
    "ratio/clipped_fraction_high": count(1) / tokens,
  };
}

/** The mean over tokens of k3, an estimate of KL(π‖ref) from samples of π. */
function meanReferenceKl(
  samples: readonly TrainingSample[],
  logprobs: readonly ArrayLike<number>[],
): number {
  return meanKl(logprobs, samples.map((sample) => atMask(sample, sample.reference_logprobs!)));
}

/**
 * The mean over tokens of k3 = e^d − d − 1 with d = log q − log p, d clamped to ±20: an estimate of KL(p‖q), in nats
 * per token, from tokens sampled from p. It is unbiased, and never below 0.
 *
 * @param p Log-probabilities of the tokens, one list for each sample. @param q As `p`, for the other policy.
 * @source Schulman, "Approximating KL Divergence" (2020), estimator k3.
 */
function meanKl(p: readonly ArrayLike<number>[], q: readonly ArrayLike<number>[]): number {
  let total = 0, tokens = 0;
  p.forEach((row, i) => {
    for (let k = 0; k < row.length; k++) {
      const d = Math.max(-MAX_LOG_RATIO, Math.min(MAX_LOG_RATIO, q[i]![k]! - row[k]!));
      total += Math.exp(d) - d - 1;
    }
    tokens += row.length;
  });
  return total / tokens;
}

/**
 * The difference between the sampler's log-probabilities s and the trainer's t for the same tokens and weights: v1 =
 * mean(s − t), v2 = mean((s − t)²)/2, and the largest |s − t|.
 */
export function samplerTrainerMetrics(sampler: ArrayLike<number>, trainer: ArrayLike<number>): Metrics {
  if (sampler.length === 0) return {};
  let v1 = 0, v2 = 0, largest = 0;
  for (let i = 0; i < sampler.length; i++) {
    const d = sampler[i]! - trainer[i]!;
    v1 += d;
    v2 += d * d / 2;
    largest = Math.max(largest, Math.abs(d));
  }
  return {
    "kl/sample_train_v1": v1 / sampler.length,
    "kl/sample_train_v2": v2 / sampler.length,
    "kl/sample_train_max": largest,
  };
}

function sum(rows: readonly Float32Array[]): number {
  let total = 0;
  for (const row of rows) for (const value of row) total += value;
  return total;
}
