import { deepEqual, equal, ok } from "node:assert/strict";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { TrainingSample } from "../../trainer/protocol/protocol.ts";
import {
  expectAllNear,
  expectNear,
  goldenAdapter,
  type GoldenPolicyCase,
  loadParts,
  readGoldenPolicy,
  sample,
  spreadOverMask,
  TOLERANCE,
} from "./golden.ts";
import { compareGradients, ELEMENT_TOLERANCE, readGradientFile, readGradients } from "./gradients.ts";

const golden = await readGoldenPolicy();
const FOLDER = "models/tiny-agent/golden-policy";

/** Fits the first group but not all: several micro-batches, each with several chunks of the vocabulary pass. */
const SIZES = { micro_batch_tokens: 160, loss_chunk_rows: 64 };

/**
 * Single precision has an error of 2e-6 (rms) in a log-probability or an entropy, and six times that at most for these
 * tokens. A ratio below 2 is the exponential of a difference of two; the loss is a sum of 229 ratios of both signs over
 * 640.
 */
const BOUND = { logprob: 3e-5, ratio: 6e-5, loss: 1e-6 };

const optimizer = {
  ...{ learning_rate: 0, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
  ...{ weight_decay: 0, max_grad_norm: 0 },
};

/** The samples as the step of a case receives them. */
function samplesOf({ old_logprobs, kl, weighted }: GoldenPolicyCase): TrainingSample[] {
  return golden.samples.map((given, i) => {
    const { tokens, loss_mask, prefix_group, prefix_length, trajectory } = given;
    const spread = (values: readonly number[]) => spreadOverMask(loss_mask, values);
    return sample(tokens, trajectory, {
      ...{ loss_mask, prefix_group, prefix_length },
      advantages: spread(given.advantages),
      old_logprobs: spread(old_logprobs[i]!),
      reference_logprobs: kl > 0 ? spread(given.reference_logprobs) : null,
      weights: weighted ? spread(given.weights) : null,
    });
  });
}

gpuTest(
  "log-probabilities of policy and reference are PyTorch's in float64, over micro-batches",
  async (gpu) => {
    const parts = await loadParts(gpu, "f16", SIZES), bound = { tolerance: BOUND.logprob };
    try {
      const adapter = await goldenAdapter(parts, `${FOLDER}/adapter.gguf`);
      const samples = samplesOf(golden.cases.token!);
      expectAllNear(await parts.trainer.score(adapter, samples), {
        ...{ ...bound, expected: golden.samples.map(({ logprobs }) => logprobs), name: "the policy's" },
      });
      expectAllNear(await parts.trainer.score(null, samples), {
        ...{ ...bound, expected: golden.samples.map((s) => s.reference_logprobs), name: "the reference's" },
      });
    } finally {
      parts.close();
    }
  },
);

for (const [name, known] of Object.entries(golden.cases)) {
  const { level, clip_low, clip_high, kl } = known;
  gpuTest(`policy gradient, ${name}: PyTorch's in float64, over micro-batches and chunks`, async (gpu) => {
    const parts = await loadParts(gpu, "f16", SIZES);
    try {
      const adapter = await goldenAdapter(parts, `${FOLDER}/adapter.gguf`);
      const { rank, alpha } = adapter.layout.lora;
      deepEqual([rank, alpha, adapter.layout.padded_rank], [golden.rank, golden.alpha, 4]);
      const result = await parts.trainer.step(adapter, samplesOf(known), {
        loss: {
          ...{ type: "policy", importance_sampling_level: level, clip_low, clip_high },
          ...{ kl_coefficient: kl, normalizer: golden.normalizer },
        },
        optimizer,
      });
      ok(result.micro_batches > 1);
      equal(result.trained_tokens, known.ratios.flat().length);
      expectNear(result.loss, { expected: known.loss, tolerance: BOUND.loss, name: "the loss" });
      const norm = result.grad_norm / known.gradient_l2, tolerance = TOLERANCE.f32.gradient;
      expectNear(norm, { expected: 1, tolerance, name: "the norm's ratio" });
      const measured = result.samples;
      deepEqual(measured.map(({ clipped }) => [...clipped]), known.clipped);
      expectAllNear(measured.map(({ logprobs }) => logprobs), {
        expected: golden.samples.map(({ logprobs }) => logprobs),
        ...{ tolerance: BOUND.logprob, name: "the log-probability" },
      });
      expectAllNear(measured.map(({ entropies }) => entropies), {
        expected: golden.samples.map(({ entropies }) => entropies),
        ...{ tolerance: BOUND.logprob, name: "the entropy" },
      });
      expectAllNear(measured.map(({ ratios }) => ratios), {
        ...{ expected: known.ratios, tolerance: BOUND.ratio, name: "the ratio" },
      });
      const gradients = await readGradientFile(`${FOLDER}/gradients.safetensors`, `${name}.`);
      equal(gradients.size, 4 * 2 * 2, "four layers, two projections, A and B");
      const worst = compareGradients(await readGradients(parts, adapter), gradients);
      console.log(
        `${name}: in ${result.micro_batches} micro-batches the loss is off by ` +
          `${(result.loss - known.loss).toExponential(1)}, a gradient by ${worst.tensor.toExponential(1)}, ` +
          `an element by ${worst.element.toExponential(1)} of its tensor's rms`,
      );
      ok(worst.tensor <= tolerance, `a gradient is off by a relative ${worst.tensor}`);
      ok(worst.element <= ELEMENT_TOLERANCE.f32, `an element is off by ${worst.element} of its rms`);
    } finally {
      parts.close();
    }
  });
}
