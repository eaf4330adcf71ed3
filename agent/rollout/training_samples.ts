/** Groups as sequences to learn from, and what learning measured back in the groups. */

import { assert } from "../../core/errors.ts";
import type { Rng } from "../../core/random.ts";
import type { SampleMeasure, TrainingSample } from "../../trainer/engine/protocol.ts";
import type { Group } from "../trajectory/group.ts";
import type { Fragment, Trajectory } from "../trajectory/trajectory.ts";

/** Keys of `[agent]` that the loss and its rows depend on. */
export interface BatchSettings {
  max_turns: number;
  max_new_tokens_per_turn: number;
  max_trajectory_tokens: number;
  kl_coefficient: number;
  importance_sampling_level: "token" | "sequence";
}

/** Where a sample comes from, and which of the fragment's sampled tokens it trains. */
export interface SamplePlace {
  group: number;
  member: number;
  fragment: number;
  /** Indices into the fragment's sampled columns, in the order of the sample's mask. */
  columns: number[];
}

/** The samples of some groups, and what is needed to write results back to where they came from. */
export interface TrainingBatch {
  samples: TrainingSample[];
  /** One for each sample. */
  places: SamplePlace[];
  /** M: trajectories that the groups kept, degenerate ones included, fragments counted once. */
  trajectories: number;
  /** M·N, by which the loss is divided once. */
  normalizer: number;
}

/** N = min(max_turns · max_new_tokens_per_turn, max_trajectory_tokens): constant, so that length is not favoured. */
export function tokenBudget(settings: BatchSettings): number {
  return Math.min(settings.max_turns * settings.max_new_tokens_per_turn, settings.max_trajectory_tokens);
}

/**
 * Samples in the order (scenario, member, fragment). A token is trained where the model wrote it and its advantage
 * is not 0, or the loss has a KL term, or its trajectory's other tokens need it for their common ratio; a fragment without such a token, and without a KL term a degenerate group, is
 * left out, though its trajectories count in M. Fragments that begin with their group's prompt share it.
 */
export function trainingSamples(groups: readonly Group[], settings: BatchSettings): TrainingBatch {
  const batch: TrainingBatch = { samples: [], places: [], trajectories: 0, normalizer: 0 };
  const whole = groups.filter(({ status }) => status === "kept" || status === "degenerate");
  let own_prefix = groups.reduce((top, { group }) => Math.max(top, group + 1), 0);
  for (const group of whole) {
    for (const member of group.members) {
      if (member.status !== "kept") continue;
      const trajectory = batch.trajectories++;
      if (group.status === "degenerate" && settings.kl_coefficient === 0) continue;
      const all_tokens = needsAllTokens(member, settings);
      member.fragments.forEach((fragment, i) => {
        const columns = fragment.sampled.turns.map((_, k) => k)
          .filter((k) => all_tokens || fragment.sampled.advantages[k] !== 0);
        if (columns.length === 0) return;
        const shares = startsWith(fragment.tokens, group.prompt_tokens);
        batch.samples.push({
          ...sampleOf(fragment, columns),
          prefix_group: shares ? group.group : own_prefix++,
          prefix_length: shares ? group.prompt_tokens.length : 0,
          trajectory,
        });
        batch.places.push({ group: group.group, member: member.member, fragment: i, columns });
      });
    }
  }
  batch.normalizer = batch.trajectories * tokenBudget(settings);
  return batch;
}

/** The ratio of a sequence is a mean over all of its trajectory's tokens, those without an advantage too. */
function needsAllTokens(member: Trajectory, settings: BatchSettings): boolean {
  return settings.kl_coefficient > 0 ||
    (settings.importance_sampling_level === "sequence" && member.turn_advantages.some((a) => a !== 0));
}

function startsWith(tokens: readonly number[], prefix: readonly number[]): boolean {
  return tokens.length > prefix.length && prefix.every((token, i) => tokens[i] === token);
}

function sampleOf(
  fragment: Fragment,
  columns: readonly number[],
): Omit<TrainingSample, "prefix_group" | "prefix_length" | "trajectory"> {
  const length = fragment.tokens.length;
  const positions = sampledPositions(fragment);
  const loss_mask = new Uint8Array(length), advantages = new Float32Array(length);
  for (const k of columns) {
    const advantage = fragment.sampled.advantages[k];
    assert(typeof advantage === "number", "every token of a kept trajectory has an advantage");
    loss_mask[positions[k]!] = 1;
    advantages[positions[k]!] = advantage;
  }
  assert(loss_mask[0] === 0, "the first token of a sequence is predicted from nothing");
  return {
    tokens: Uint32Array.from(fragment.tokens),
    loss_mask,
    advantages,
    old_logprobs: null,
    reference_logprobs: null,
    weights: null,
  };
}

/** Where each sampled token of a fragment stands in it. */
export function sampledPositions(fragment: Fragment): number[] {
  const positions: number[] = [];
  for (const { start, end, origin } of fragment.spans) {
    if (origin !== "model") continue;
    for (let t = start; t < end; t++) positions.push(t);
  }
  assert(positions.length === fragment.sampled.turns.length, "every model token has its columns");
  return positions;
}

/**
 * Puts log-probabilities, as `score` answers them, into the samples: those of the policy that sampled, or of the
 * reference.
 */
export function attachLogprobs(
  batch: TrainingBatch,
  field: "old_logprobs" | "reference_logprobs",
  logprobs: readonly Float32Array[],
): void {
  assert(logprobs.length === batch.samples.length, "one list of log-probabilities a sample");
  batch.samples.forEach((sample, i) => {
    const values = new Float32Array(sample.tokens.length), row = logprobs[i]!;
    let k = 0;
    sample.loss_mask.forEach((m, t) => {
      if (m) values[t] = row[k++]!;
    });
    assert(k === row.length, "one log-probability a trained token");
    sample[field] = values;
  });
}

/** The sampler's own log-probabilities of the trained tokens, in the form of {@link attachLogprobs}. */
export function samplerLogprobs(batch: TrainingBatch, groups: readonly Group[]): Float32Array[] {
  return batch.places.map((place) => {
    const { sampled } = fragmentAt(groups, place);
    return Float32Array.from(place.columns, (k) => sampled.sampler_logprobs[k]!);
  });
}

/** Writes down the trainer's log-probabilities of the policy that sampled. */
export function recordTrainerLogprobs(
  batch: TrainingBatch,
  groups: readonly Group[],
  logprobs: readonly ArrayLike<number>[],
): void {
  batch.places.forEach((place, i) => {
    const { sampled } = fragmentAt(groups, place);
    place.columns.forEach((k, j) => sampled.trainer_logprobs[k] = logprobs[i]![j]!);
  });
}

/**
 * Writes what a training step measured into the trajectories: ratio, clipped, entropy, and that the token was
 * trained. The trainer's log-probability is that of the first pass unless one was recorded before; the rest is the last
 * pass's.
 */
export function recordMeasures(
  batch: TrainingBatch,
  groups: readonly Group[],
  measures: readonly SampleMeasure[],
): void {
  assert(measures.length === batch.samples.length, "one measure a sample");
  batch.places.forEach((place, i) => {
    const { sampled } = fragmentAt(groups, place), measure = measures[i]!;
    assert(measure.logprobs.length === place.columns.length, "one value a trained token");
    place.columns.forEach((k, j) => {
      sampled.trainer_logprobs[k] ??= measure.logprobs[j]!;
      sampled.ratios[k] = measure.ratios[j]!;
      sampled.clipped[k] = measure.clipped[j]!;
      sampled.entropies[k] = measure.entropies[j]!;
      sampled.trained[k] = true;
    });
  });
}

function fragmentAt(groups: readonly Group[], place: SamplePlace): Fragment {
  const group = groups.find(({ group }) => group === place.group);
  const member: Trajectory | undefined = group?.members[place.member];
  const fragment = member?.fragments[place.fragment];
  assert(fragment, "a sample's place lies in its groups");
  return fragment;
}

/**
 * Splits an update's groups, whole, into at most `steps` parts of nearly equal size, shuffled by the random numbers; within a
 * part they keep their order.
 */
export function splitGroups(groups: readonly Group[], steps: number, rng: Rng): Group[][] {
  const kept = groups.filter(({ status }) => status === "kept" || status === "degenerate");
  if (steps === 1) return kept.length > 0 ? [kept] : [];
  const shuffled = rng.shuffle(kept);
  const parts = Array.from({ length: Math.min(steps, kept.length) }, (): Group[] => []);
  shuffled.forEach((group, i) => parts[i % parts.length]!.push(group));
  return parts.map((part) => part.sort((a, b) => a.group - b.group));
}
