import { equal, ok } from "node:assert/strict";
import type { LossRequest, TrainingSample } from "../protocol/protocol.ts";
import { BigramModel, newBigramAdapter } from "./scripted_model_fake.ts";

const OPTIMIZER = {
  learning_rate: 0,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 0,
};

Deno.test("sampled tokens have the frequencies of their log-probabilities", () => {
  const model = new BigramModel(3), n = 3000, counts = [0, 0, 0];
  const sampling = { temperature: 1, top_p: 1, top_k: 0, mask: null };
  const logprobs = model.logprobs(null, 0);
  for (let i = 0; i < n; i++) counts[model.sample(logprobs, 1, { ...sampling, rng_key: [i, 1] })]!++;
  const p = [...logprobs].map(Math.exp);
  equal(Math.abs(p.reduce((a, b) => a + b) - 1) < 1e-12, true);
  // Three standard deviations of a share of 3000 samples are below 0.028.
  counts.forEach((count, v) => ok(Math.abs(count / n - p[v]!) < 0.028, `${counts} ${p}`));
});

/** The norm of the gradient by central differences of the loss in every table entry. */
function numericNorm(model: BigramModel, samples: TrainingSample[], loss: LossRequest): number {
  const h = 1e-5;
  let squares = 0;
  for (const previous of new Set(samples.flatMap((s) => [...s.tokens]))) {
    for (let v = 0; v < model.vocabulary; v++) {
      const at = (delta: number) => {
        const adapter = newBigramAdapter();
        adapter.delta.set(
          previous,
          Float64Array.from({ length: model.vocabulary }, (_, i) => i === v ? delta : 0),
        );
        return model.trainStep(adapter, { samples, loss, optimizer: OPTIMIZER }).loss;
      };
      squares += ((at(h) - at(-h)) / (2 * h)) ** 2;
    }
  }
  return Math.sqrt(squares);
}

Deno.test("the gradient of every loss equals central differences", () => {
  const model = new BigramModel(5);
  const lp = model.logprobs(null, 1)[2]!;
  const base = {
    tokens: Uint32Array.from([1, 2, 3, 1, 4]),
    prefix_group: 0,
    prefix_length: 0,
    loss_mask: Uint8Array.from([0, 1, 1, 0, 1]),
    trajectory: 0,
    old_logprobs: null,
    reference_logprobs: null,
    weights: null,
  };
  const sft = { ...base, advantages: null };
  const policy = {
    ...base,
    advantages: Float32Array.from([0, 1, -2, 0, 0.5]),
    old_logprobs: Float32Array.from([0, lp - 0.6, -1.5, 0, -1.4]),
    weights: Float32Array.from([0, 0.5, 1, 0, 1]),
  };
  const token: LossRequest = {
    type: "policy",
    importance_sampling_level: "token",
    clip_low: 0.2,
    clip_high: 0.28,
    kl_coefficient: 0,
    normalizer: 3,
  };
  for (const [samples, loss] of [[[sft], { type: "sft", normalizer: 3 }], [[policy], token]] as const) {
    const exact = model.trainStep(newBigramAdapter(), { samples: [...samples], loss, optimizer: OPTIMIZER });
    const numeric = numericNorm(model, [...samples], loss);
    ok(Math.abs(exact.grad_norm - numeric) < 1e-7, `${exact.grad_norm} ${numeric}`);
  }
});
