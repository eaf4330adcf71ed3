/**
 * The cost of an update of agent_grpo whose trajectories have their full length, from random tokens: rollouts, and
 * optimiser steps.
 */

import type { ResolvedAgent, ResolvedConfig } from "../../../config/check/derive.ts";
import type { LossRequest, TrainingSample } from "../../../trainer/protocol/protocol.ts";
import { POLICY } from "../algorithm.ts";
import { type MeasuredUpdate, type Measurement, warmTime } from "../measured_update.ts";
import { optimizerRequest } from "../optimizer_step.ts";
import { type Lengths, lengthsOf, randomTokens, rolloutSeconds } from "../rollouts/measure_rollouts.ts";

/** Seconds of an update: its rollouts, the passes that only score, and its steps. */
export async function measureAgentUpdate(
  config: ResolvedConfig,
  measurement: Measurement,
): Promise<MeasuredUpdate> {
  const agent = config.agent!, lengths = lengthsOf(agent);
  const { scenarios_per_update, group_size, max_trajectory_tokens, epochs_per_update } = agent;
  const rollouts = await rolloutSeconds(agent, lengths, measurement);
  const { score, step, of_update } = await trainingSeconds(config, lengths, measurement);
  const training = of_update * (score * scoringPasses(agent) + step * epochs_per_update);
  const tokens = scenarios_per_update * group_size * max_trajectory_tokens;
  return { seconds: rollouts + training, tokens };
}

/** Passes over an update's samples besides those of its steps: old and reference policy, and the update's bound. */
function scoringPasses(
  { epochs_per_update, optimizer_steps_per_update, old_logprobs, kl_coefficient, max_update_kl }:
    ResolvedAgent,
): number {
  const has_old = old_logprobs === "rescored" && epochs_per_update * optimizer_steps_per_update > 1;
  return Number(has_old) + Number(kl_coefficient > 0) + (max_update_kl > 0 ? 2 : 0);
}

/** Seconds of scoring and of a step on a part of a group, and how often an update has that part's tokens. */
async function trainingSeconds(
  config: ResolvedConfig,
  { written, prompt }: Lengths,
  { engine, vocabulary, clock, signal }: Measurement,
): Promise<{ score: number; step: number; of_update: number }> {
  const { group_size, scenarios_per_update, clip_low, clip_high, kl_coefficient, importance_sampling_level } =
    config.agent!;
  const { micro_batch_tokens } = config.training;
  const members = Math.min(group_size, Math.max(1, Math.floor((micro_batch_tokens - prompt) / written)));
  const samples = groupSamples({ members, prompt, written }, { vocabulary, has_kl: kl_coefficient > 0 });
  const loss: LossRequest = {
    ...{ type: "policy", importance_sampling_level, clip_low, clip_high, kl_coefficient },
    normalizer: members * written,
  };
  const optimizer = optimizerRequest(config.training, 0);
  const step = await warmTime(clock, () => {
    signal.throwIfAborted();
    return engine.call("train_step", { adapter: POLICY, samples, loss, optimizer });
  });
  const score = await warmTime(clock, () => engine.call("score", { adapter: POLICY, samples }));
  const group = prompt + group_size * written;
  return { score, step, of_update: scenarios_per_update * group / (prompt + members * written) };
}

function groupSamples(
  { members, prompt, written }: Lengths & { members: number },
  { vocabulary, has_kl }: { vocabulary: number; has_kl: boolean },
): TrainingSample[] {
  const start = randomTokens(prompt, vocabulary);
  return Array.from({ length: members }, (_, trajectory): TrainingSample => {
    const tokens = Uint32Array.from([...start, ...randomTokens(written, vocabulary, trajectory)]);
    return {
      ...{ tokens, prefix_group: 0, prefix_length: prompt, trajectory, old_logprobs: null, weights: null },
      loss_mask: Uint8Array.from(tokens, (_, i) => i < prompt ? 0 : 1),
      advantages: new Float32Array(tokens.length).fill(1),
      reference_logprobs: has_kl ? new Float32Array(tokens.length) : null,
    };
  });
}
