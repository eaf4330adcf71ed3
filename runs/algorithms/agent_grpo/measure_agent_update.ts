/**
 * The cost of an update of agent_grpo whose trajectories have their full length, from random tokens: prompts, decode
 * steps of all concurrent attempts, and an optimiser step. Tools, environments and graders take no part.
 */

import { tokenBudget } from "../../../agent/rollout/training_samples.ts";
import type { ResolvedAgent, ResolvedConfig } from "../../../config/check/derive.ts";
import { Rng, rngKey } from "../../../core/random.ts";
import type { EngineClient } from "../../../trainer/protocol/client.ts";
import type { LossRequest, TrainingSample } from "../../../trainer/protocol/protocol.ts";
import { POLICY } from "../algorithm.ts";
import { type MeasuredUpdate, type Measurement, warmTime } from "../measured_update.ts";
import { optimizerRequest } from "../optimizer_step.ts";

/** Decode steps that are timed: several blocks. */
const DECODED_TOKENS = 16;

/** The tokens of one trajectory: those that the model writes, and the others. */
interface Lengths {
  written: number;
  prompt: number;
}

/** A prompt has at least one token. */
function lengthsOf(agent: ResolvedAgent): Lengths {
  const written = Math.min(tokenBudget(agent), agent.max_trajectory_tokens - 1);
  return { written, prompt: agent.max_trajectory_tokens - written };
}

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

/** Prompts once for each group, and as many decode steps as a trajectory has tokens, for each wave of attempts. */
async function rolloutSeconds(
  { concurrent_rollouts, scenarios_per_update, group_size }: ResolvedAgent,
  { written, prompt }: Lengths,
  { engine, vocabulary, clock, signal }: Measurement,
): Promise<number> {
  const attempts = scenarios_per_update * group_size, rows = Math.min(concurrent_rollouts, attempts);
  const count = Math.min(DECODED_TOKENS, written);
  // Attention costs the mean over a trajectory in its middle.
  const middle = Math.max(1, Math.min(prompt + Math.floor(written / 2), prompt + written - count - 1));
  const sequences = Array.from({ length: rows }, () => engine.newSequence());
  const tokens = randomTokens(middle, vocabulary);
  const open = () =>
    Promise.all(
      sequences.map((sequence) =>
        engine.call("sequence_open", { sequence, adapter: POLICY, parent: null, tokens })
      ),
    );
  const decode = (max_tokens: number) =>
    Promise.all(sequences.map((sequence) => decodeTokens(engine, { sequence, max_tokens })));
  const close = () => Promise.all(sequences.map((sequence) => engine.call("sequence_close", { sequence })));
  const times: { prefill: number; decode: number }[] = [];
  for (let round = 0; round < 2; round++) {
    signal.throwIfAborted();
    const started = clock.monotonic_ms();
    await open();
    await decode(1);
    const opened = clock.monotonic_ms();
    await decode(count);
    times.push({ prefill: opened - started, decode: clock.monotonic_ms() - opened });
    await close();
  }
  const { prefill, decode: decoded } = times[1]!, waves = Math.ceil(attempts / rows);
  const prompts = scenarios_per_update * prompt * (prefill / (rows * middle));
  return (prompts + waves * written * (decoded / count)) / 1000;
}

async function decodeTokens(
  engine: EngineClient,
  { sequence, max_tokens }: { sequence: number; max_tokens: number },
): Promise<void> {
  const rng_key = rngKey(0, "measure", sequence);
  const sampling = { temperature: 1, top_p: 1, top_k: 0, rng_key, mask: null };
  for await (const _ of engine.generate({ sequence, max_tokens, stop_tokens: [], sampling }));
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

function randomTokens(count: number, vocabulary: number, path = 0): number[] {
  const rng = new Rng(rngKey(0, "measure", path));
  return Array.from({ length: count }, () => rng.below(vocabulary));
}
