import assert from "node:assert/strict";
import type { Group } from "../../../agent/trajectory/group.ts";
import type { ResolvedAgent } from "../../../config/check/derive.ts";
import { ScriptedEngine } from "../../../trainer/engine/scripted_engine_fake.ts";
import { testGrpo } from "../../agent_grpo_testing.ts";

const SEQUENCE = { importance_sampling_level: "sequence", epochs_per_update: 2 } as const;

/** Fragments of the third member of the first group, each as long as a complete attempt. */
const FRAGMENTS = 5;

/** The tokens of a micro-batch that holds each other attempt, and not all fragments of that member. */
const MICRO_BATCH = 150;

async function update(change: Partial<ResolvedAgent>) {
  const grpo = await testGrpo({
    newEngine: (refuse) => new ScriptedEngine({ refuse }).client,
    change,
    verify: (_, said) => said.join("").length,
    rolled_out([group]: Group[]) {
      const { fragments } = group!.members[2]!;
      while (fragments.length < FRAGMENTS) fragments.push(structuredClone(fragments[0]!));
      // Longer than any attempt: the tokens of its turn are repeated.
      for (const { tokens, spans, sampled } of fragments) {
        while (tokens.length < 60) {
          tokens.push(7);
          spans.at(-1)!.end++;
          sampled.turns.push(0);
          for (const name of ["trainer_logprobs", "advantages", "ratios", "clipped", "entropies"] as const) {
            sampled[name].push(null);
          }
          sampled.sampler_logprobs.push(-1);
          sampled.trained.push(false);
        }
      }
    },
  });
  grpo.config.training.micro_batch_tokens = MICRO_BATCH;
  return { grpo, result: await grpo.run(1) };
}

Deno.test("a trajectory whose fragments exceed a micro-batch is lost where they share one ratio", async () => {
  const { grpo: { trained, observed }, result } = await update(SEQUENCE);
  assert.deepEqual(result.lost, { micro_batch_tokens: 1 });
  const { members } = observed[0]!.groups[0]!;
  const kept = observed[0]!.groups.flatMap(({ members }) => members).filter(({ advantage }) =>
    advantage !== 0
  );
  assert.ok(kept.includes(members[2]!), "it counts in the baseline of its group");
  assert.equal(trained().length, 2);
  for (const { samples, loss } of trained()) {
    assert.equal(samples.length, kept.length - 1);
    assert.equal(loss.normalizer, 2 * 4 * 256);
  }
  const trainedTokens = (member: number) =>
    members[member]!.fragments.flatMap(({ sampled }) => sampled.trained).filter((is) => is).length;
  assert.equal(trainedTokens(2), 0);
  assert.ok([0, 1, 3].some((member) => trainedTokens(member) > 0));
});

Deno.test("fragments that need no common ratio are trained in any micro-batches", async () => {
  const others = [
    { ...SEQUENCE, importance_sampling_level: "token" },
    // With one step every ratio is 1.
    { ...SEQUENCE, epochs_per_update: 1 },
  ] as const;
  for (const change of others) {
    const { grpo: { trained }, result } = await update(change);
    assert.deepEqual(result.lost, {});
    assert.ok(trained()[0]!.samples.filter(({ trajectory }) => trajectory === 2).length === FRAGMENTS);
  }
  const { result } = await update({ ...SEQUENCE, epochs_per_update: 1, old_logprobs: "sampler" });
  assert.deepEqual(
    result.lost,
    { micro_batch_tokens: 1 },
    "the sampler's log-probabilities differ from the trainer's",
  );
});

Deno.test("more than max_dropped_fraction of them fails the update, naming the key to raise", async () => {
  const few = { ...SEQUENCE, max_dropped_fraction: 1 / 8 };
  assert.deepEqual((await update(few)).result.lost, { micro_batch_tokens: 1 });
  // Five times 60 tokens with a common prompt; the last token of each has no row.
  await assert.rejects(update({ ...few, max_dropped_fraction: 0.1 }), (error: Error & { code: string }) => {
    assert.equal(error.code, "max_dropped_fraction");
    const [, needed] = /1 of 8 trajectories are lost, .* raise training\.micro_batch_tokens to (\d+)$/.exec(
      error.message,
    )!;
    return Number(needed) > MICRO_BATCH && Number(needed) <= 5 * 60;
  });
});
