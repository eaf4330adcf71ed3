import { equal, ok } from "node:assert/strict";
import { needsReference, PREFERENCE_LOSS_NAMES } from "../../core/preference_loss.ts";
import { gpuTest } from "../../kernels/gpu_testing.ts";
import type { LossRequest } from "../../trainer/protocol/protocol.ts";
import {
  expectAllNear,
  expectNear,
  goldenAdapter,
  loadParts,
  readGoldenPreference,
  sample,
  spreadOverMask,
  TOLERANCE,
} from "./golden.ts";
import { compareGradients, ELEMENT_TOLERANCE, readGradientFile, readGradients } from "./gradients.ts";

const golden = await readGoldenPreference();

/** Fits one pair but not all: several micro-batches, each with several chunks of the vocabulary pass. */
const SIZES = { micro_batch_tokens: 160, loss_chunk_rows: 64 };

/**
 * Single precision has an error of 2e-6 (rms) in a log-probability, and six times that at most for these tokens. DPO's
 * score is a tenth of a sum of at most 44; ipo's loss is the square of a difference from 5; simpo's and orpo's scores
 * are means times 2.
 */
const BOUND = { logprob: 3e-5, score: 6e-5, loss: 1e-4 };

const optimizer = {
  ...{ learning_rate: 0, beta1: 0.9, beta2: 0.999, eps: 1e-8 },
  ...{ weight_decay: 0, max_grad_norm: 0 },
};

const PAIRS = new Set(golden.samples.map(({ trajectory }) => trajectory)).size;

for (const loss_name of PREFERENCE_LOSS_NAMES) {
  gpuTest(
    `the gradient of ${loss_name} is PyTorch's in float64, over micro-batches and chunks`,
    async (gpu) => {
      const parts = await loadParts(gpu, "f16", SIZES), known = golden.cases[loss_name];
      const { beta, gamma, lambda } = known;
      const needs_reference = needsReference(loss_name);
      const samples = golden.samples.map((given) => {
        const { tokens, loss_mask, prefix_group, prefix_length, trajectory } = given;
        const reference_logprobs = needs_reference
          ? spreadOverMask(loss_mask, given.reference_logprobs)
          : null;
        return sample(tokens, trajectory, {
          ...{ loss_mask, prefix_group, prefix_length, reference_logprobs },
        });
      });
      const loss: LossRequest = {
        ...{ type: "preference", loss: loss_name, beta, gamma, lambda, normalizer: PAIRS },
        rejected: golden.samples.map(({ rejected }) => rejected),
      };
      try {
        const adapter = await goldenAdapter(parts, "models/tiny-agent/golden-policy/adapter.gguf");
        const result = await parts.trainer.step(adapter, samples, { loss, optimizer });
        ok(result.micro_batches > 1);
        expectNear(result.loss, { expected: known.loss, tolerance: BOUND.loss, name: "the loss" });
        const tolerance = TOLERANCE.f32.gradient, norm = result.grad_norm / known.gradient_l2;
        expectNear(norm, { expected: 1, tolerance, name: "the norm's ratio" });
        expectAllNear(result.samples.map(({ logprobs }) => logprobs), {
          expected: golden.samples.map(({ logprobs }) => logprobs),
          ...{ tolerance: BOUND.logprob, name: "the log-probability" },
        });
        expectAllNear(result.samples.map(({ score }) => [score!]), {
          expected: golden.samples.map((
            { trajectory, rejected },
          ) => [known.scores[trajectory]![rejected ? 1 : 0]]),
          ...{ tolerance: BOUND.score, name: "the score" },
        });
        const gradients = await readGradientFile(
          "models/tiny-agent/golden-preference/gradients.safetensors",
          `${loss_name}.`,
        );
        equal(gradients.size, 4 * 2 * 2, "four layers, two projections, A and B");
        const worst = compareGradients(await readGradients(parts, adapter), gradients);
        console.log(
          `${loss_name}: in ${result.micro_batches} micro-batches the loss is off by ` +
            `${(result.loss - known.loss).toExponential(1)}, a gradient by ${
              worst.tensor.toExponential(1)
            }, ` +
            `an element by ${worst.element.toExponential(1)} of its tensor's rms`,
        );
        ok(worst.tensor <= tolerance, `a gradient is off by a relative ${worst.tensor}`);
        ok(worst.element <= ELEMENT_TOLERANCE.f32, `an element is off by ${worst.element} of its rms`);
      } finally {
        parts.close();
      }
    },
  );
}
