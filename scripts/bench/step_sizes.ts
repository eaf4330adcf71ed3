/** The sizes of the timed steps, and their training samples. */

import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { rngKey } from "../../core/random.ts";
import type { LoraShape, OptimizerRequest, TrainingSample } from "../../trainer/protocol/protocol.ts";

/** An SFT step and a GRPO step, and the buffers that they need. */
export interface StepSizes {
  max_context: number;
  micro_batch_tokens: number;
  loss_chunk_rows: number;
  /**
   * Sequences that decode at the same time, the length of each, and how many share a prompt as a group's members do.
   */
  decode_batches: readonly number[];
  decode_group: number;
  decode_prompt: number;
  decode_tokens: number;
  /** Sequences and tokens of each, for prefill. */
  prefills: readonly (readonly [sequences: number, tokens: number])[];
  /** Sequences of an SFT step and the tokens of each, half of them trained. */
  sft: { sequences: number; tokens: number };
  /** Members of a group, and the tokens of its prompt and of each completion; completions are trained. */
  group: { members: number; prompt: number; completion: number };
}

const SOFTWARE: StepSizes = {
  max_context: 512,
  micro_batch_tokens: 1280,
  loss_chunk_rows: 512,
  decode_batches: [1, 8, 16, 32, 64],
  decode_group: 8,
  decode_prompt: 128,
  decode_tokens: 64,
  prefills: [[1, 256], [8, 128]],
  sft: { sequences: 8, tokens: 144 },
  group: { members: 8, prompt: 320, completion: 110 },
};

/** The prompt is three times as long as a completion, as in agents' episodes. */
const GPU: StepSizes = {
  max_context: 4096,
  micro_batch_tokens: 8192,
  loss_chunk_rows: 512,
  decode_batches: [1, 8, 16, 32, 64, 128, 256],
  decode_group: 8,
  decode_prompt: 256,
  decode_tokens: 256,
  prefills: [[1, 512], [1, 2048], [8, 512], [32, 256]],
  sft: { sequences: 8, tokens: 1024 },
  group: { members: 8, prompt: 1536, completion: 512 },
};

const QUICK: StepSizes = {
  max_context: 128,
  micro_batch_tokens: 128,
  loss_chunk_rows: 64,
  decode_batches: [2],
  decode_group: 2,
  decode_prompt: 16,
  decode_tokens: 24,
  prefills: [[2, 32]],
  sft: { sequences: 2, tokens: 32 },
  group: { members: 2, prompt: 32, completion: 16 },
};

/**
 * Sizes to try, the largest first, because WebGPU does not report the memory size. Only the micro-batch shrinks, so the
 * steps stay the same.
 */
export function stepSizes({ software, quick }: { software: boolean; quick: boolean }): StepSizes[] {
  if (quick) return [QUICK];
  const sizes = software ? SOFTWARE : GPU;
  return [1, 2, 4].map((part) => ({ ...sizes, micro_batch_tokens: sizes.micro_batch_tokens / part }))
    .filter((size) => size.micro_batch_tokens >= size.group.prompt + size.group.completion);
}

export const LORA: LoraShape = { rank: 16, alpha: 32, targets: [...LORA_TARGETS] };

/** Small steps: their effect does not matter. */
export const OPTIMIZER: OptimizerRequest = {
  learning_rate: 1e-5,
  beta1: 0.9,
  beta2: 0.999,
  eps: 1e-8,
  weight_decay: 0,
  max_grad_norm: 1,
};

/** Random token ids below the vocabulary's size. */
export function randomTokens(seed: number, count: number, vocabulary: number): number[] {
  const [key] = rngKey(seed, "tokens");
  return Array.from({ length: count }, (_, i) => (Math.imul(key + i, 2654435761) >>> 8) % vocabulary);
}

/** Dialogues whose second half is trained. */
export function sftSamples({ sequences, tokens }: StepSizes["sft"], vocabulary: number): TrainingSample[] {
  return Array.from({ length: sequences }, (_, i) => ({
    tokens: Uint32Array.from(randomTokens(i, tokens, vocabulary)),
    prefix_group: i,
    prefix_length: 0,
    loss_mask: Uint8Array.from({ length: tokens }, (_, position) => position >= tokens / 2 ? 1 : 0),
    trajectory: i,
    advantages: null,
    old_logprobs: null,
    reference_logprobs: null,
    weights: null,
  }));
}

/** Members of one group; `shared`: their prompt is computed once. */
export function groupSamples(
  { members, prompt, completion }: StepSizes["group"],
  vocabulary: number,
  { shared }: { shared: boolean },
): TrainingSample[] {
  const first = randomTokens(0, prompt, vocabulary), length = prompt + completion;
  return Array.from({ length: members }, (_, i) => ({
    tokens: Uint32Array.from([...first, ...randomTokens(1 + i, completion, vocabulary)]),
    prefix_group: shared ? 0 : i,
    prefix_length: shared ? prompt : 0,
    loss_mask: Uint8Array.from({ length }, (_, position) => position >= prompt ? 1 : 0),
    trajectory: i,
    advantages: new Float32Array(length).fill(i % 2 === 0 ? 1 : -1),
    old_logprobs: new Float32Array(length).fill(-Math.log(vocabulary)),
    reference_logprobs: null,
    weights: null,
  }));
}
