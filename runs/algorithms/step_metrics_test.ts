import assert from "node:assert/strict";
import type {
  LossRequest,
  OptimizerRequest,
  TrainingSample,
  TrainStepResult,
} from "../../trainer/protocol/protocol.ts";
import { type Metrics, samplerTrainerMetrics, stepMetrics } from "./step_metrics.ts";

function near(actual: Metrics, expected: Metrics, tolerance = 1e-7) {
  assert.deepEqual(Object.keys(actual).sort(), Object.keys(expected).sort());
  for (const [name, value] of Object.entries(expected)) {
    assert.ok(Math.abs(actual[name]! - value) <= tolerance, `${name}: ${actual[name]}, expected ${value}`);
  }
}

const sample = (mask: number[], reference: number[] | null): TrainingSample => ({
  tokens: new Uint32Array(mask.length),
  prefix_group: 0,
  prefix_length: 0,
  loss_mask: Uint8Array.from(mask),
  trajectory: 0,
  advantages: new Float32Array(mask.length),
  old_logprobs: null,
  reference_logprobs: reference && Float32Array.from(reference),
  weights: null,
});

const optimizer: OptimizerRequest = {
  learning_rate: 0.001,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 1,
};

const result: TrainStepResult = {
  loss: -0.25,
  grad_norm: 1.5,
  skipped: false,
  version: 1,
  step: 1,
  computed_tokens: 8,
  trained_tokens: 4,
  micro_batches: 1,
  eps_dominated_fraction: 0.125,
  samples: [
    {
      logprobs: Float32Array.of(-1, -2, -0.5),
      entropies: Float32Array.of(0.5, 1, 0.25),
      ratios: Float32Array.of(1, 1.5, 0.5),
      score: null,
      clipped: Int8Array.of(0, 1, -1),
    },
    {
      logprobs: Float32Array.of(-0.5),
      entropies: Float32Array.of(0.25),
      ratios: Float32Array.of(2),
      score: null,
      clipped: Int8Array.of(1),
    },
  ],
};

const policy: LossRequest = {
  type: "policy",
  importance_sampling_level: "token",
  clip_low: 0.2,
  clip_high: 0.28,
  kl_coefficient: 0.1,
  normalizer: 100,
};

Deno.test("metrics of a policy step computed by hand", () => {
  const samples = [sample([0, 1, 1, 0, 1], [0, -1, -1, 0, -1]), sample([0, 1], [0, -0.5])];
  const k3 = (d: number) => Math.exp(d) - d - 1;
  near(stepMetrics({ result, samples, loss: policy, optimizer }), {
    "loss/policy": -0.25,
    "optimizer/grad_norm": 1.5,
    "optimizer/clip_hit": 1,
    "optimizer/learning_rate": 0.001,
    "optimizer/eps_dominated_fraction": 0.125,
    "policy/logprob_mean": -1, // (−1 − 2 − 0.5 − 0.5) / 4
    "policy/entropy": 0.5, // (0.5 + 1 + 0.25 + 0.25) / 4
    "ratio/mean": 1.25, // (1 + 1.5 + 0.5 + 2) / 4
    "ratio/max": 2,
    "ratio/clipped_fraction_low": 0.25,
    "ratio/clipped_fraction_high": 0.5,
    "kl/reference": (k3(0) + k3(1) + k3(-0.5) + k3(0)) / 4,
  });
});

Deno.test("without a KL term there is no reference to measure, without clipping no hit", () => {
  const samples = [sample([0, 1, 1, 0, 1], null), sample([0, 1], null)];
  const metrics = stepMetrics({
    result,
    samples,
    loss: { ...policy, kl_coefficient: 0 },
    optimizer: { ...optimizer, max_grad_norm: 0 },
  });
  assert.equal(metrics["kl/reference"], undefined);
  assert.equal(metrics["optimizer/clip_hit"], 0);
});

Deno.test("metrics of an SFT step", () => {
  const samples = [sample([0, 1, 1, 0, 1], null), sample([0, 1], null)];
  const metrics = stepMetrics({ result, samples, loss: { type: "sft", normalizer: 4 }, optimizer });
  assert.equal(metrics["loss/sft"], -0.25);
  assert.equal(metrics["policy/logprob_mean"], -1);
  assert.equal(metrics["ratio/mean"], undefined);
});

Deno.test("sampler compared with trainer, computed by hand", () => {
  near(samplerTrainerMetrics([-1, -2, -3], [-1.5, -2, -2.75]), {
    "kl/sample_train_v1": (0.5 + 0 - 0.25) / 3,
    "kl/sample_train_v2": (0.125 + 0 + 0.03125) / 3,
    "kl/sample_train_max": 0.5,
  });
  assert.deepEqual(samplerTrainerMetrics([], []), {});
});
