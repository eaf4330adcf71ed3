import { deepEqual, equal, notDeepEqual, throws } from "node:assert/strict";
import { Rng } from "../../core/random.ts";
import { FragmentRecorder } from "../trajectory/fragments.ts";
import type { Group } from "../trajectory/group.ts";
import { tokenRows } from "../trajectory/token_rows_testing.ts";
import { assignAdvantages } from "./advantage.ts";
import { applyTruncation } from "./reward.ts";
import { rewardedGroup, testGroup } from "./group_testing.ts";
import {
  attachLogprobs,
  recordMeasures,
  recordTrainerLogprobs,
  samplerLogprobs,
  splitGroups,
  tokenBudget,
  trainingSamples,
} from "./training_samples.ts";

const SETTINGS = {
  max_turns: 3,
  max_new_tokens_per_turn: 10,
  max_trajectory_tokens: 100,
  kl_coefficient: 0,
  importance_sampling_level: "token",
} as const;

function settled(...groups: Group[]): Group[] {
  for (const group of groups) {
    applyTruncation(group, "drop");
    if (group.status === "kept") assignAdvantages(group, "leave_one_out");
  }
  return groups;
}

Deno.test("N is the smaller of the turns' tokens and the trajectory's", () => {
  equal(tokenBudget(SETTINGS), 30);
  equal(tokenBudget({ ...SETTINGS, max_trajectory_tokens: 29 }), 29);
});

Deno.test("a sample trains only the model's tokens, and shares its group's prompt", () => {
  const groups = settled(testGroup([
    { step_rewards: [0, 0], terminal: 1, turn_tokens: [2, 1] },
    { step_rewards: [0], terminal: 0, turn_tokens: [3] },
  ], 4));
  const { samples, places, trajectories, normalizer } = trainingSamples(groups, SETTINGS);
  deepEqual(samples.map((sample) => ({ ...sample })), [
    {
      tokens: Uint32Array.of(1, 2, 3, 10, 11, 9, 10),
      prefix_group: 4,
      prefix_length: 3,
      loss_mask: Uint8Array.of(0, 0, 0, 1, 1, 0, 1),
      trajectory: 0,
      advantages: Float32Array.of(0, 0, 0, 1, 1, 0, 1),
      old_logprobs: null,
      reference_logprobs: null,
      weights: null,
    },
    {
      tokens: Uint32Array.of(1, 2, 3, 10, 11, 12),
      prefix_group: 4,
      prefix_length: 3,
      loss_mask: Uint8Array.of(0, 0, 0, 1, 1, 1),
      trajectory: 1,
      advantages: Float32Array.of(0, 0, 0, -1, -1, -1),
      old_logprobs: null,
      reference_logprobs: null,
      weights: null,
    },
  ]);
  deepEqual(places, [
    { group: 4, member: 0, fragment: 0, columns: [0, 1, 2] },
    { group: 4, member: 1, fragment: 0, columns: [0, 1, 2] },
  ]);
  deepEqual([trajectories, normalizer], [2, 60]);
});

Deno.test("M counts degenerate trajectories, never lost ones; their rows are left out without a KL term", () => {
  const groups = () =>
    settled(
      testGroup([
        { terminal: 1 },
        { stop_reason: "tool_failed" },
        { terminal: 0 },
        { stop_reason: "max_turns" },
      ]),
      rewardedGroup([1, 1, 1], 1),
      testGroup([{ terminal: 1 }, { stop_reason: "max_turns" }], 2),
    );
  const plain = trainingSamples(groups(), SETTINGS);
  deepEqual([plain.trajectories, plain.normalizer], [5, 150]);
  deepEqual(plain.places.map(({ group, member }) => [group, member]), [[0, 0], [0, 2]]);
  deepEqual(plain.samples.map(({ trajectory }) => trajectory), [0, 1]);
  const with_kl = trainingSamples(groups(), { ...SETTINGS, kl_coefficient: 0.1 });
  deepEqual([with_kl.trajectories, with_kl.samples.length], [5, 5], "the KL term reaches degenerate groups");
  deepEqual([...with_kl.samples[3]!.loss_mask], [0, 0, 0, 1, 1]);
  deepEqual([...with_kl.samples[3]!.advantages!], [0, 0, 0, 0, 0]);
});

Deno.test("tokens without an advantage go through the head only for a KL term", () => {
  const groups = settled(testGroup([{ step_rewards: [1, 0] }, { step_rewards: [0, 0] }]));
  deepEqual([...trainingSamples(groups, SETTINGS).samples[0]!.loss_mask], [0, 0, 0, 1, 1, 0, 0, 0]);
  const all = trainingSamples(groups, { ...SETTINGS, kl_coefficient: 1 });
  deepEqual([...all.samples[0]!.loss_mask], [0, 0, 0, 1, 1, 0, 1, 1]);
});

Deno.test("the ratio of a sequence includes all tokens of its trajectory", () => {
  const groups = settled(
    testGroup([{ step_rewards: [1, 0] }, { step_rewards: [0, 0] }, {
      step_rewards: [0.5],
      turn_tokens: [1],
    }]),
  );
  const { samples } = trainingSamples(groups, { ...SETTINGS, importance_sampling_level: "sequence" });
  deepEqual(samples.map(({ loss_mask }) => loss_mask.join("")), ["00011011", "00011011"]);
  deepEqual([...samples[0]!.advantages!], [0, 0, 0, 0.75, 0.75, 0, 0, 0]);
});

Deno.test("fragments of one trajectory share its number, and their group's prompt where they begin with it", () => {
  const groups = settled(rewardedGroup([1, 0]));
  const recorder = new FragmentRecorder([1, 2, 3]);
  recorder.addSampled(0, [10], [-1]);
  recorder.restart([1, 2, 3, 9]);
  recorder.addSampled(0, [10, 11], [-1, -2]);
  recorder.restart([7]);
  recorder.addSampled(0, [12], [-1]);
  groups[0]!.members[0]!.fragments = recorder.fragments;
  assignAdvantages(groups[0]!, "leave_one_out");
  const { samples, trajectories } = trainingSamples(groups, SETTINGS);
  equal(trajectories, 2);
  deepEqual(
    samples.map(({ trajectory, prefix_group, prefix_length }) => [trajectory, prefix_group, prefix_length]),
    [
      [0, 0, 3],
      [0, 0, 3],
      [0, 1, 0],
      [1, 0, 3],
    ],
  );
  deepEqual([...samples[1]!.loss_mask], [0, 0, 0, 0, 1, 1]);
});

Deno.test("log-probabilities are written to the masked positions and read back", () => {
  const groups = settled(testGroup([
    { step_rewards: [1, 0], turn_tokens: [2, 2] },
    { step_rewards: [0, 0], turn_tokens: [1, 1] },
  ]));
  const batch = trainingSamples(groups, SETTINGS);
  deepEqual(samplerLogprobs(batch, groups).map((row) => [...row]), [[-10 / 8, -11 / 8], [-10 / 8]]);
  attachLogprobs(batch, "old_logprobs", [Float32Array.of(-1, -2), Float32Array.of(-3)]);
  attachLogprobs(batch, "reference_logprobs", samplerLogprobs(batch, groups));
  deepEqual([...batch.samples[0]!.old_logprobs!], [0, 0, 0, -1, -2, 0, 0, 0]);
  deepEqual([...batch.samples[1]!.reference_logprobs!], [0, 0, 0, -10 / 8, 0, 0]);
  throws(
    () => attachLogprobs(batch, "old_logprobs", [Float32Array.of(-1), Float32Array.of(-3)]),
    /one log-probability/,
  );
  throws(() => attachLogprobs(batch, "old_logprobs", []), /one list/);
});

Deno.test("measures are written back to the trained tokens", () => {
  const groups = settled(testGroup([
    { step_rewards: [1, 0], turn_tokens: [1, 1] },
    { step_rewards: [0, 0], turn_tokens: [1, 1] },
  ]));
  const batch = trainingSamples(groups, SETTINGS);
  const measure = (logprob: number, ratio: number, clipped: number) => ({
    logprobs: Float32Array.of(logprob),
    entropies: Float32Array.of(0.5),
    score: null,
    ratios: Float32Array.of(ratio),
    clipped: Int8Array.of(clipped),
  });
  recordMeasures(batch, groups, [measure(-1, 1, 0), measure(-2, 1, 0)]);
  recordMeasures(batch, groups, [measure(-0.5, 1.5, 1), measure(-2.5, 0.75, -1)]);
  const rows = tokenRows(groups[0]!.members[0]!.fragments[0]!);
  deepEqual(rows.slice(2), [
    row(3, "prompt"),
    {
      ...row(10, "model"),
      trained: true,
      sampler_logprob: -1.25,
      trainer_logprob: -1,
      advantage: 1,
      ratio: 1.5,
      clipped: 1,
    },
    row(9, "tool"),
    { ...row(10, "model"), sampler_logprob: -1.25, advantage: 0 },
  ]);
  deepEqual(groups[0]!.members[0]!.fragments[0]!.sampled.entropies, [0.5, null]);
  recordTrainerLogprobs(batch, groups, [[-7], [-8]]);
  recordMeasures(batch, groups, [measure(-1, 1, 0), measure(-2, 1, 0)]);
  equal(tokenRows(groups[0]!.members[1]!.fragments[0]!)[3]!.trainer_logprob, -8, "a recorded one stays");
});

Deno.test("if only a later turn is trained, all columns belong to that turn", () => {
  // Returns are equal in the first turn and differ in the second.
  const groups = settled(testGroup([
    { step_rewards: [1, 0], turn_tokens: [1, 2] },
    { step_rewards: [0, 1], turn_tokens: [1, 2] },
  ]));
  const batch = trainingSamples(groups, SETTINGS);
  deepEqual(batch.samples.map(({ loss_mask }) => loss_mask.join("")), ["0000011", "0000011"]);
  deepEqual([...batch.samples[0]!.advantages!], [0, 0, 0, 0, 0, -1, -1]);
  deepEqual(samplerLogprobs(batch, groups).map((row) => [...row]), [
    [-10 / 8, -11 / 8],
    [-10 / 8, -11 / 8],
  ]);
  const measure = {
    logprobs: Float32Array.of(-1, -2),
    entropies: Float32Array.of(0.5, 0.25),
    score: null,
    ratios: Float32Array.of(1.5, 0.75),
    clipped: Int8Array.of(0, -1),
  };
  recordTrainerLogprobs(batch, groups, [[-3, -4], [-5, -6]]);
  recordMeasures(batch, groups, [measure, measure]);
  const { sampled } = groups[0]!.members[0]!.fragments[0]!;
  deepEqual({ ...sampled, turns: null, sampler_logprobs: null }, {
    turns: null,
    sampler_logprobs: null,
    trainer_logprobs: [null, -3, -4],
    advantages: [0, -1, -1],
    ratios: [null, 1.5, 0.75],
    clipped: [null, 0, -1],
    entropies: [null, 0.5, 0.25],
    trained: [false, true, true],
  });
});

const row = (id: number, origin: "prompt" | "tool" | "model") => ({
  id,
  origin,
  trained: false,
  sampler_logprob: null,
  trainer_logprob: null,
  advantage: null,
  ratio: null,
  clipped: null,
});

Deno.test("groups are never split, each is used once, and the same key gives the same order", () => {
  const groups = settled(
    ...Array.from({ length: 7 }, (_, i) => rewardedGroup([1, 0], i)),
    testGroup([{ terminal: 1 }], 7),
  );
  const split = (steps: number) =>
    splitGroups(groups, steps, new Rng([1, 2])).map((part) => part.map(({ group }) => group));
  deepEqual(split(1), [[0, 1, 2, 3, 4, 5, 6]]);
  const parts = split(3);
  deepEqual(parts.map((part) => part.length), [3, 2, 2]);
  deepEqual(parts.flat().toSorted(), [0, 1, 2, 3, 4, 5, 6]);
  deepEqual(parts, parts.map((part) => part.toSorted()), "each in the order of its groups");
  notDeepEqual(parts[0], [0, 3, 6], "which are shuffled between the parts");
  deepEqual(split(3), parts);
  equal(split(20).length, 7);
});
