/**
 * The protocol between the thread that owns the GPU and all others. Messages are plain data, so that they can cross a
 * `MessagePort`. `core/rpc.ts` pairs requests with answers. A generation sends blocks of tokens; the last block has the
 * reason of its end.
 *
 * A **sequence** is a list of tokens with their keys and values in the cache, and the hidden state after the last token.
 * A **generation** samples the next token from that state, runs it through the model, and repeats. Every token, given or
 * sampled, runs through the model at most once. The last sampled token runs only when something follows it.
 * A sequence with a parent shares the parent's pages and copies at most the last, partial page.
 */

import type { DeviceFacts, DeviceRequest } from "../../core/device.ts";
import type { DeviceClaim } from "../../core/device_lock.ts";
import type { ErrorRecord } from "../../core/errors.ts";
import type { LoraTarget } from "../../core/lora_targets.ts";
import type { RngKey } from "../../core/random.ts";
import type { CheckedFile } from "../../core/regular_file.ts";
import type { PairLossOptions } from "../../core/preference_loss.ts";

/** The file of a checkpoint with the adapter, in the format of `adapter_save`. */
export const CHECKPOINT_ADAPTER = "adapter.gguf";

/** A request to load a model: the file, the device, and the sizes that the engine must hold at a time. */
export interface LoadRequest {
  /** The GGUF file. */
  path: string;
  device: DeviceRequest;
  /** Type of matmul operands; `auto`: f32 on a software adapter, else f16 where the device has it. */
  compute: "auto" | "f32" | "f16";
  /** Type of cached keys and values; `auto` as `compute`. */
  kv: "auto" | "f32" | "f16";
  /** The longest sequence, in tokens. */
  max_context: number;
  /** The rows of a decode step: the most sequences that generate at the same time. */
  max_sequences: number;
  /** The capacity of the key/value cache in tokens, rounded up to full pages. */
  kv_tokens: number;
  /** The tokens of a training micro-batch, and an upper bound for the tokens of a prefill step. */
  micro_batch_tokens: number;
  /** The rows that are projected to logits at a time in the loss. */
  loss_chunk_rows: number;
  /** Whether the backward pass recomputes each layer's activations instead of keeping them; absent: false. */
  gradient_checkpointing?: boolean;
  /**
   * With a demand the buffers of training are allocated at loading, without one at first use. Adapters are allocated
   * when they are opened. The arrays of a step grow with the steps, because few steps reach the largest size.
   */
  demand?: EngineDemand;
  /** With a claim the engine uses hardware only if no process of another owner does; absent: in any case. */
  claim?: DeviceClaim;
  /** Files, also of adapters, that are opened only as they were checked; absent: none. */
  files?: readonly CheckedFile[];
}

/** A load request without file and device. */
export type EngineSizes = Omit<LoadRequest, "path" | "device" | "claim">;

/** The most that a run requests of the engine. */
export interface EngineDemand {
  /** The shape of every adapter. */
  lora: LoraShape;
  /** The most adapters that are open in addition to the trained one. Opening one more is a `conflict`. */
  other_adapters: number;
  /** The most trained tokens of a step, or scored tokens of a request. */
  targets: number;
  /** Whether divergences will be requested. */
  divergence: boolean;
  /** Whether `adapter_keep` will be requested. */
  keeps_state: boolean;
}

/** The facts of a loaded model. */
export interface ModelFacts {
  architecture: string;
  parameters: number;
  layers: number;
  width: number;
  vocabulary: number;
  /** The context length that the model was trained for, from its file. */
  context_length: number;
  tensor_types: string[];
  compute: "f32" | "f16";
  kv: "f32" | "f16";
  device: DeviceFacts;
}

/** The shape of an adapter: its rank, its alpha (B·A is scaled by alpha / rank), and its target projections. */
export interface LoraShape {
  rank: number;
  alpha: number;
  targets: LoraTarget[];
}

/** Where an adapter's values come from. `init`: A is normal with standard deviation 1/√in, B is 0. */
export type AdapterSource =
  | { type: "init"; lora: LoraShape; seed: number }
  | { type: "file"; path: string }
  | { type: "copy"; adapter: string };

/** The facts of an open adapter. */
export interface AdapterFacts {
  lora: LoraShape;
  parameters: number;
  /** A number that grows with every change of the values. */
  version: number;
}

/** The ids that may be sampled. Other ids have probability 0, also in the log-probabilities of a block. */
export type TokenMaskRequest =
  /** The same ids at every position. */
  | { type: "allowed_tokens"; tokens: number[] }
  /**
   * The sampled text is JSON that satisfies the schema, which is given as text. A text that `max_tokens` cuts off is the
   * start of such JSON. There must be a stop token; stop tokens are sampled only where the text may end. A decode block
   * has one step. docs/reference/structured_output.md lists the keywords; others are `config_invalid`.
   */
  | { type: "json_schema"; schema: string };

/** How tokens are sampled. */
export interface SamplingRequest {
  /** 0: the largest logit; of equal logits the lowest id. */
  temperature: number;
  /** In (0, 1]; 1: all. */
  top_p: number;
  /** 0: all. */
  top_k: number;
  /** The token at position p is sampled with (rng_key, p), so it does not depend on other sequences. */
  rng_key: RngKey;
  mask: TokenMaskRequest | null;
}

/** `stop_token`: the last token is one of `stop_tokens`; `max_tokens`; `cancelled`. */
export type GenerationStop = "stop_token" | "max_tokens" | "cancelled";

/** The tokens that a generation sampled since its last block, with their log-probabilities when sampled. */
export interface TokenBlock {
  sequence: number;
  tokens: number[];
  logprobs: number[];
  /** Why the generation ended; null while it continues. */
  stop: GenerationStop | null;
}

/** One sequence to train on or to score. Each array has an entry for each token. */
export interface TrainingSample {
  tokens: Uint32Array;
  /** Samples of one `prefix_group` have the same first `prefix_length` tokens, which are computed once. */
  prefix_group: number;
  /** 0: no prefix is shared. No token of the prefix may be trained. */
  prefix_length: number;
  /** 1 for a trained token, which is predicted from the tokens before it; never 1 at index 0. */
  loss_mask: Uint8Array;
  /** The samples of one trajectory have the same number and share one sequence-level ratio. */
  trajectory: number;
  /** The advantages of the tokens; null when the loss uses none. */
  advantages: Float32Array | null;
  /** Log-probabilities of the policy that sampled; null: the current policy, so that every ratio is 1. */
  old_logprobs: Float32Array | null;
  /** Log-probabilities of the reference policy; null when the loss uses none. */
  reference_logprobs: Float32Array | null;
  /** A constant factor of the token's policy or SFT term (truncated importance sampling); null: 1. */
  weights: Float32Array | null;
}

/** Losses are sums over all samples of the step, divided by `normalizer`. Micro-batches do not change them. */
export type LossRequest =
  /** Σ mask · weight · (−logπ) / normalizer. */
  | { type: "sft"; normalizer: number }
  /** The clipped objective of GRPO (`token`) or GSPO-token (`sequence`), with the k3 estimate of KL(π‖ref). */
  | {
    type: "policy";
    importance_sampling_level: "token" | "sequence";
    clip_low: number;
    clip_high: number;
    kl_coefficient: number;
    normalizer: number;
  }
  /**
   * The loss of pairs of completions, see preferenceLoss. The samples of one trajectory are a pair: first those of the
   * chosen completion, then those of the rejected one. Losses with a reference need its log-probabilities.
   */
  | PairLossOptions & {
    type: "preference";
    /** For each sample, whether it belongs to the rejected completion of its pair. */
    rejected: boolean[];
    /** The number of pairs of the step. */
    normalizer: number;
  };

/** The settings of AdamW for one step. */
export interface OptimizerRequest {
  learning_rate: number;
  beta1: number;
  beta2: number;
  eps: number;
  weight_decay: number;
  /** A gradient with a larger global norm is scaled down to this one; 0: no limit. */
  max_grad_norm: number;
}

/** Measures of a sample before the optimiser step. Lists have a value for each trained token, in the mask's order. */
export interface SampleMeasure {
  logprobs: Float32Array;
  entropies: Float32Array;
  /** π/π_old of the token or of the trajectory; empty for a preference loss. */
  ratios: Float32Array;
  /** The score of the sample's completion; null for other losses than preference losses. */
  score: number | null;
  /** −1: clipped below; 1: clipped above; 0: not clipped. */
  clipped: Int8Array;
}

/** The result of one optimiser step: the loss, counts, and the measures of every sample. */
export interface TrainStepResult {
  loss: number;
  /** The global norm of the gradient before clipping. */
  grad_norm: number;
  /** Whether the loss or the gradient was not finite, so that nothing was changed. */
  skipped: boolean;
  /** The adapter's version after the step. */
  version: number;
  /** The number of optimiser steps so far. */
  step: number;
  /** Tokens that ran through the model; shared ones count once. */
  computed_tokens: number;
  trained_tokens: number;
  micro_batches: number;
  /** The fraction of parameters with √v̂ < eps, where v̂ is the second moment after bias correction. */
  eps_dominated_fraction: number;
  samples: SampleMeasure[];
}

/** Counts of the engine's work since the model was loaded, and the memory that it uses. */
export interface EngineCounters {
  submits: number;
  readbacks: number;
  dispatches: number;
  /** Given tokens that ran through the model for sequences; shared ones count once. */
  prefill_tokens: number;
  /** Passes with given tokens. */
  prefill_steps: number;
  /** Sampled tokens. */
  decode_tokens: number;
  /** Decode steps, and the sum of their row capacities. */
  decode_steps: number;
  decode_rows: number;
  kv_pages_used: number;
  kv_pages_total: number;
  /** Bytes on the device by component: weights, adapters, optimizer, kv, sampler, activations, loss, recorder, staging. */
  bytes: Record<string, number>;
  /** The same when there were the most bytes in all since the model was loaded. */
  peak_bytes: Record<string, number>;
}

/**
 * All requests with their answers. Each client chooses its own sequence numbers. `score`, `divergence` and `train_step`
 * can be aborted: they then end before their next micro-batch, with the reason, and have changed nothing. The others
 * run to their end.
 */
export interface EngineMethods {
  probe: { request: DeviceRequest; answer: DeviceFacts };
  load: { request: LoadRequest; answer: ModelFacts };
  adapter_open: { request: { adapter: string; source: AdapterSource }; answer: AdapterFacts };
  /** Writes the adapter as GGUF, and also as a PEFT folder if `peft_dir` is not null. */
  adapter_save: {
    request: { adapter: string; path: string; peft_dir: string | null };
    answer: { bytes: number; sha256: string };
  };
  adapter_close: { request: { adapter: string }; answer: null };
  /**
   * adapter := from + scale · (adapter − from), for two adapters of one shape and a scale from 0 to 1. A scale of 0
   * copies every bit. The moments and the step count stay. Open sequences of the adapter are a `conflict`.
   */
  adapter_interpolate: { request: { adapter: string; from: string; scale: number }; answer: AdapterFacts };
  /** Copies the values, the moments and the step count into the machine's memory, in place of an earlier copy. */
  adapter_keep: { request: { adapter: string }; answer: null };
  /**
   * Gives the adapter every bit of what `adapter_keep` copied, and its version. Without a copy, and with open sequences of
   * the adapter, it is a `conflict`.
   */
  adapter_revert: { request: { adapter: string }; answer: AdapterFacts };
  /** Writes `adapter.gguf` and `optimizer.safetensors` to `directory`, with every bit of the values and the moments. */
  checkpoint_save: { request: { adapter: string; directory: string }; answer: null };
  checkpoint_load: { request: { adapter: string; directory: string }; answer: AdapterFacts };
  /** A null `adapter` is the base model. The answer comes when the tokens are accepted; they run in a later batch. */
  sequence_open: {
    request: { sequence: number; adapter: string | null; parent: number | null; tokens: number[] };
    answer: null;
  };
  sequence_extend: { request: { sequence: number; tokens: number[] }; answer: null };
  /** Keeps the first `length` tokens and removes all after them. */
  sequence_truncate: { request: { sequence: number; length: number }; answer: null };
  /** The answer comes when the generation is accepted; the tokens follow as {@link TokenBlock} messages. */
  sequence_generate: {
    request: {
      sequence: number;
      max_tokens: number;
      stop_tokens: number[];
      sampling: SamplingRequest;
      /** The most tokens of a block; absent: as many as suit the device. The tokens do not depend on it. */
      block_tokens?: number;
    };
    answer: null;
  };
  /** Ends a running generation at the next block, with stop `cancelled`. */
  sequence_cancel: { request: { sequence: number }; answer: null };
  sequence_close: { request: { sequence: number }; answer: null };
  /** Log-probabilities of the masked tokens by teacher forcing, in the order of each sample's mask. */
  score: {
    request: { adapter: string | null; samples: TrainingSample[] };
    answer: { logprobs: Float32Array[] };
  };
  /**
   * KL(from‖adapter) of the next-token distributions over all tokens of the vocabulary, in nats. There is one value
   * for each masked token, in the order of each sample's mask. Two adapters must have the same shape.
   */
  divergence: {
    request: { adapter: string | null; from: string | null; samples: TrainingSample[] };
    answer: { divergences: Float32Array[] };
  };
  /** One AdamW step on the loss over all samples. Open sequences of the adapter are a `conflict`. */
  train_step: {
    request: { adapter: string; samples: TrainingSample[]; loss: LossRequest; optimizer: OptimizerRequest };
    answer: TrainStepResult;
  };
  counters: { request: null; answer: EngineCounters };
  /** Destroys the device. No other request may follow. */
  shutdown: { request: null; answer: null };
}

/** The name of a request to the engine. */
export type EngineMethod = keyof EngineMethods;

/** A message of the engine about a generation. It answers no request. */
export type EngineNotice =
  | { block: TokenBlock }
  /** The generation failed in the engine. */
  | { failed: { sequence: number; error: ErrorRecord } };
