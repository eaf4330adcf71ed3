/**
 * The cost of an update's rollouts whose trajectories have their full length, from random tokens: prompts, and decode
 * steps of all concurrent attempts. Tools, environments and graders take no part.
 */

import { tokenBudget } from "../../../agent/rollout/training_samples.ts";
import type { ResolvedAgent } from "../../../config/check/derive.ts";
import { Rng, rngKey } from "../../../core/random.ts";
import type { EngineClient } from "../../../trainer/protocol/client.ts";
import { POLICY } from "../algorithm.ts";
import type { Measurement } from "../measured_update.ts";

/** Decode steps that are timed: several blocks. */
const DECODED_TOKENS = 16;

/** The tokens of one trajectory: those that the model writes, and the others. */
export interface Lengths {
  written: number;
  prompt: number;
}

/** The lengths of a full trajectory; a prompt has at least one token. */
export function lengthsOf(agent: ResolvedAgent): Lengths {
  const written = Math.min(tokenBudget(agent), agent.max_trajectory_tokens - 1);
  return { written, prompt: agent.max_trajectory_tokens - written };
}

/** Seconds: prompts once for each group, and as many decode steps as a trajectory has tokens, for each wave of attempts. */
export async function rolloutSeconds(
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

/** Any tokens of the vocabulary; other ones for another `path`. */
export function randomTokens(count: number, vocabulary: number, path = 0): number[] {
  const rng = new Rng(rngKey(0, "measure", path));
  return Array.from({ length: count }, () => rng.below(vocabulary));
}
