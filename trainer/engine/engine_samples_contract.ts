/** The checks of the engine's contract about what samples hold. */

import { deepEqual, ok, rejects } from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import { near, sample, score, someTokens, step, type TestedEngine, withAdapter } from "./engine_testing.ts";
import type { LossRequest, TrainingSample, TrainStepResult } from "../protocol/protocol.ts";

/** A weight is a factor of its token's term: 0 leaves it out, and one for all is a smaller normaliser. */
export async function checkWeights(engine: TestedEngine): Promise<void> {
  const tokens = someTokens(1, 24), from = 8, plain = sample(tokens, from);
  const weighted = (weight: (t: number) => number, base = plain): TrainingSample => ({
    ...base,
    weights: Float32Array.from(tokens, (_, t) => weight(t)),
  });
  const sft: LossRequest = { type: "sft", normalizer: 16 };
  const advantages = Float32Array.from(tokens, (_, t) => t % 2 ? -0.5 : 1);
  const policy: LossRequest = {
    ...{ type: "policy", importance_sampling_level: "token", clip_low: 0.2, clip_high: 0.28 },
    ...{ kl_coefficient: 0, normalizer: 16 },
  };
  const first = async (one: TrainingSample, loss: LossRequest): Promise<TrainStepResult> => {
    const results: TrainStepResult[] = [];
    await withAdapter(engine, async (adapter) => {
      results.push(await step(engine, { adapter, samples: [one], loss }));
    });
    return results[0]!;
  };
  const weight = (t: number) => t % 3 / 2, [logprobs] = await score(engine, null, [plain]);
  const expected = logprobs!.reduce((sum, lp, i) => sum - weight(from + i) * lp / 16, 0);
  near((await first(weighted(weight), sft)).loss, expected, engine.logprob_tolerance);
  // Without old log-probabilities every ratio is 1.
  const gains = logprobs!.reduce((sum, _, i) => sum - weight(from + i) * advantages[from + i]! / 16, 0);
  const graded = { ...plain, advantages };
  near((await first(weighted(weight, graded), policy)).loss, gains, engine.logprob_tolerance);
  for (const [loss, base] of [[sft, plain], [policy, graded]] as const) {
    const later = { ...base, loss_mask: base.loss_mask.map((m, t) => t < 16 ? 0 : m) };
    const half = { ...loss, normalizer: 32 };
    for (
      const [one, other, other_loss] of [
        [weighted((t) => t < 16 ? 0 : 1, base), later, loss],
        [weighted(() => 0.5, base), base, half],
      ] as const
    ) {
      const { grad_norm } = await first(one, loss);
      near(grad_norm / (await first(other, other_loss)).grad_norm, 1, 10 * engine.logprob_tolerance);
    }
  }
}

/** Malformed samples are refused before anything changes, and the message names the request. */
export async function checkMalformedSamples(engine: TestedEngine): Promise<void> {
  const { client, vocabulary } = engine, good = sample(someTokens(3, 12), 4, { trajectory: 5 });
  const malformed: [Partial<TrainingSample>, RegExp][] = [
    [{ loss_mask: good.loss_mask.with(0, 1) }, /its loss mask has the first token, which nothing predicts$/],
    [{ loss_mask: good.loss_mask.slice(1) }, /loss_mask has 11 entries for 12 tokens$/],
    [{ weights: new Float32Array(13) }, /weights has 13 entries for 12 tokens$/],
    [{ tokens: good.tokens.with(4, vocabulary) }, /token \d+ is not in the vocabulary of \d+$/],
    [sample([1], 1), /it has fewer than 2 tokens$/],
    [sample(someTokens(0, 4096), 1), /4096 tokens are more than the context of \d+$/],
  ];
  const loss: LossRequest = { type: "sft", normalizer: 1 };
  await withAdapter(engine, async (adapter) => {
    const before = await score(engine, adapter, [good]);
    for (const [change, reason] of malformed) {
      const samples = [good, { ...good, ...change, trajectory: 7 }];
      const requests = {
        "score": score(engine, adapter, samples),
        "compare policies on": client.call("divergence", { from: null, adapter, samples }),
        "train on": step(engine, { adapter, samples, loss }),
      };
      for (const [use, request] of Object.entries(requests)) {
        await rejects(request, (error: unknown) => {
          ok(error instanceof ServiceError && error.code === "config_invalid", String(error));
          ok(error.message.startsWith(`Cannot ${use} trajectory 7: `), error.message);
          return reason.test(error.message);
        });
      }
    }
    deepEqual(await score(engine, adapter, [good]), before, "nothing was trained");
  });
}
