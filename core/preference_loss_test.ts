import assert from "node:assert/strict";
import { readGoldenPreference } from "../tests/golden/golden.ts";
import { needsReference, pairLoss, type PairLossOptions, type ScoredCompletion } from "./preference_loss.ts";

const golden = await readGoldenPreference();

for (const [loss, known] of Object.entries(golden.cases)) {
  Deno.test(`the loss and the margins of ${loss} are PyTorch's`, () => {
    const { beta, gamma, lambda, scores } = known;
    const options = { loss, beta, gamma, lambda } as PairLossOptions;
    const completion = (pair: number, side: boolean): ScoredCompletion => {
      const own = golden.samples.filter(({ trajectory, rejected }) =>
        trajectory === pair && rejected === side
      );
      return {
        logprobs: own.flatMap(({ logprobs }) => logprobs),
        reference_logprobs: needsReference(options.loss)
          ? own.flatMap((sample) => sample.reference_logprobs)
          : [],
      };
    };
    const results = scores.map((_, pair) =>
      pairLoss(completion(pair, false), completion(pair, true), options)
    );
    // The goldens' log-probabilities are rounded to f32: an error of 3e-8 each, in sums of up to 44.
    results.forEach(({ margin }, pair) => {
      const [chosen, rejected] = scores[pair]!;
      assert.ok(Math.abs(margin - (chosen - rejected)) < 2e-6, `pair ${pair}: ${margin}`);
    });
    const mean = results.reduce((sum, { loss }) => sum + loss, 0) / results.length;
    assert.ok(Math.abs(mean - known.loss) < 2e-5, `${mean} for ${known.loss}`);
  });
}

Deno.test("far margins and certain completions have finite losses", () => {
  const completion = (logprob: number) => ({ logprobs: [logprob], reference_logprobs: [0] });
  const options = { beta: 1, gamma: 0, lambda: 1 };
  const dpo = pairLoss(completion(-800), completion(0), { loss: "dpo", ...options });
  assert.deepEqual(dpo, { loss: 800, scores: [-800, 0], margin: -800 });
  assert.ok(Number.isFinite(pairLoss(completion(0), completion(-1), { loss: "orpo", ...options }).loss));
});
