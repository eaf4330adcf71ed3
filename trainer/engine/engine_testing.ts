/** The engine that the contract checks run on, and helpers that they share. */

import { ok } from "node:assert/strict";
import type { TokenBytes } from "../grammar/token_trie.ts";
import type { EngineClient } from "../protocol/client.ts";
import type {
  GenerationStop,
  LossRequest,
  OptimizerRequest,
  SamplingRequest,
  TrainingSample,
  TrainStepResult,
} from "../protocol/protocol.ts";

/** An engine with a small model loaded: at least 8 sequences, a context of 256 and a vocabulary of 64. */
export interface TestedEngine {
  client: EngineClient;
  /** How far a sampled log-probability may be from the scored one: 1e-5 in f32, 1e-2 with f16 operands. */
  logprob_tolerance: number;
  vocabulary: number;
  close(): Promise<void>;
}

/** An engine for all checks of the contract suite. */
export interface ContractEngine extends TestedEngine {
  /** The bytes of each id. */
  tokens: TokenBytes;
  /** An id that ends a turn. */
  end: number;
}

/** All tokens of a generation, with their log-probabilities. */
export interface Generated {
  tokens: number[];
  logprobs: number[];
  stop: GenerationStop | null;
}

export interface GenerateOptions {
  sequence: number;
  max_tokens: number;
  stop_tokens?: number[];
  sampling?: Partial<SamplingRequest>;
}

/** Runs a generation to its end. The temperature is 0 by default. */
export async function generate({ client }: TestedEngine, options: GenerateOptions): Promise<Generated> {
  const generated: Generated = { tokens: [], logprobs: [], stop: null };
  const sampling: SamplingRequest = {
    temperature: 0,
    top_p: 1,
    top_k: 0,
    rng_key: [1, 2],
    mask: null,
    ...options.sampling,
  };
  const { sequence, max_tokens, stop_tokens = [] } = options;
  for await (const block of client.generate({ sequence, max_tokens, stop_tokens, sampling })) {
    generated.tokens.push(...block.tokens);
    generated.logprobs.push(...block.logprobs);
    generated.stop = block.stop;
  }
  return generated;
}

/** Opens a sequence of the base model. */
export async function open(
  { client }: TestedEngine,
  tokens: number[],
  from: { parent?: number; adapter?: string | null } = {},
): Promise<number> {
  const sequence = client.newSequence();
  const { parent = null, adapter = null } = from;
  await client.call("sequence_open", { sequence, adapter, parent, tokens });
  return sequence;
}

export async function close({ client }: TestedEngine, ...sequences: number[]): Promise<void> {
  for (const sequence of sequences) await client.call("sequence_close", { sequence });
}

/** `count` tokens below 64, starting with `first`. */
export const someTokens = (first: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => (first + 7 * i) % 64);

/** The optimiser of the checks. */
export const OPTIMIZER: OptimizerRequest = {
  learning_rate: 0.01,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 0,
};

let adapters = 0;

/** Runs `use` with a new adapter, then closes the adapter. */
export async function withAdapter(
  { client }: TestedEngine,
  use: (adapter: string) => Promise<void>,
): Promise<void> {
  const adapter = `contract_${adapters++}`;
  const lora = { rank: 4, alpha: 8, targets: ["q_proj" as const, "down_proj" as const] };
  await client.call("adapter_open", { adapter, source: { type: "init", lora, seed: 3 } });
  await use(adapter);
  await client.call("adapter_close", { adapter });
}

/** A sample that trains every token from `from` on. */
export function sample(tokens: number[], from: number, more: Partial<TrainingSample> = {}): TrainingSample {
  return {
    tokens: Uint32Array.from(tokens),
    prefix_group: 0,
    prefix_length: 0,
    loss_mask: Uint8Array.from(tokens, (_, t) => t >= from ? 1 : 0),
    trajectory: 0,
    advantages: null,
    old_logprobs: null,
    reference_logprobs: null,
    weights: null,
    ...more,
  };
}

/** Fails if a number is further away than the tolerance. */
export const near = (actual: number, expected: number, tolerance: number) =>
  ok(Math.abs(actual - expected) <= tolerance, `${actual} is not within ${tolerance} of ${expected}`);

/** The log-probabilities of the trained tokens, by sample. */
export async function score(
  { client }: TestedEngine,
  adapter: string | null,
  samples: TrainingSample[],
): Promise<number[][]> {
  const { logprobs } = await client.call("score", { adapter, samples });
  return logprobs.map((row) => [...row]);
}

/** One optimiser step, with {@link OPTIMIZER} by default. */
export const step = (
  { client }: TestedEngine,
  request: { adapter: string; samples: TrainingSample[]; loss: LossRequest; optimizer?: OptimizerRequest },
): Promise<TrainStepResult> => client.call("train_step", { optimizer: OPTIMIZER, ...request });
