/** Converts groups to training samples, and writes the measures of training back into the groups. */

import { assert } from "../../core/errors.ts";
import type { Rng } from "../../core/random.ts";
import type { SampleMeasure, TrainingSample } from "../../trainer/protocol/protocol.ts";
import type { Group } from "../trajectory/group.ts";
import type { Fragment, Trajectory } from "../trajectory/trajectory.ts";

/** Keys of `[agent]` that determine the loss and its rows. */
export interface BatchSettings {
  max_turns: number;
  max_new_tokens_per_turn: number;
  max_trajectory_tokens: number;
  kl_coefficient: number;
  importance_sampling_level: "token" | "sequence";
}

/** A sample's origin, and the sampled tokens of the fragment that it trains. */
export interface SamplePlace {
  group: number;
  member: number;
  fragment: number;
  /** Indices into the fragment's sampled columns, in the order of the sample's mask. */
  columns: number[];
}

/** The samples of some groups, with the places for results. */
export interface TrainingBatch {
  samples: TrainingSample[];
  /** One for each sample. */
  places: SamplePlace[];
  /** M: trajectories that the groups kept, degenerate ones included, fragments counted once. */
  trajectories: number;
  /** M·N, by which the loss is divided once. */
  normalizer: number;
}

/** N = min(max_turns · max_new_tokens_per_turn, max_trajectory_tokens): constant, so that length has no influence. */
export function tokenBudget(
  settings: Pick<BatchSettings, "max_turns" | "max_new_tokens_per_turn" | "max_trajectory_tokens">,
): number {
  return Math.min(settings.max_turns * settings.max_new_tokens_per_turn, settings.max_trajectory_tokens);
}

/**
 * Samples in the order (scenario, member, fragment). A token is trained if the model sampled it and its advantage is
 * not 0, or the loss has a KL term, or the trajectory's other tokens need it for their common ratio. A fragment without
 * such a token is left out, as is a degenerate group when there is no KL term; their trajectories still count in M.
 * Fragments that start with their group's prompt share it.
 */
export function trainingSamples(groups: readonly Group[], settings: BatchSettings): TrainingBatch {
  const batch: TrainingBatch = { samples: [], places: [], trajectories: 0, normalizer: 0 };
  const trained = groups.filter(({ status }) => status === "kept" || status === "degenerate");
  let own_prefix = groups.reduce((top, { group }) => Math.max(top, group + 1), 0);
  for (const group of trained) {
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

/** A sequence-level ratio is a mean over all tokens of its trajectory, including those without an advantage. */
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

/** The positions of a fragment's sampled tokens. */
function sampledPositions(fragment: Fragment): number[] {
  const positions: number[] = [];
  for (const { start, end, origin } of fragment.spans) {
    if (origin !== "model") continue;
    for (let t = start; t < end; t++) positions.push(t);
  }
  assert(positions.length === fragment.sampled.turns.length, "every model token has its columns");
  return positions;
}

/** Adds log-probabilities from `score` to the samples: those of the old policy, or of the reference. */
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

/** Records the trainer's log-probabilities of the old policy. */
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
 * Writes the measures of a training step into the trajectories: ratio, clipped, entropy, and that the token was
 * trained. The trainer's log-probability comes from the first pass unless it was recorded before; the rest comes from
 * the last pass.
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
 * Divides an update's groups into at most `steps` parts of nearly equal size, shuffled by the random key. Within a part
 * they keep their order.
 */
export function splitGroups(groups: readonly Group[], steps: number, rng: Rng): Group[][] {
  const kept = groups.filter(({ status }) => status === "kept" || status === "degenerate");
  if (steps === 1) return kept.length > 0 ? [kept] : [];
  const shuffled = rng.shuffle(kept);
  const parts = Array.from({ length: Math.min(steps, kept.length) }, (): Group[] => []);
  shuffled.forEach((group, i) => parts[i % parts.length]!.push(group));
  return parts.map((part) => part.sort((a, b) => a.group - b.group));
}
