/**
 * The boundary between the thread that owns the GPU and everyone else: plain data only, so that every message can
 * cross a `MessagePort`. Requests and answers are paired by `core/rpc.ts`; a generation sends a block of tokens at a
 * time until one of them names why it stopped.
 *
 * A **sequence** is a list of tokens whose keys and values lie in the cache, and the hidden state after the last of
 * them. A **generation** draws the next token from that state, runs it through the model, and so on; so every token
 * of a sequence, given or drawn, goes through the model at most once: the last one drawn waits until something follows it. A sequence opened with a parent shares the
 * parent's pages and copies at most the last, partial one.
 */

import type { ErrorRecord } from "../../core/errors.ts";
import type { LoraTarget } from "../../core/lora_targets.ts";
import type { RngKey } from "../../core/random.ts";
import type { DeviceFacts, DeviceRequest } from "../../kernels/device.ts";
import type { PairLossOptions } from "../../core/preference_loss.ts";

export { PAGE_TOKENS } from "../../kernels/kv_pages/kv_pages.ts";
export type { DeviceFacts, DeviceRequest } from "../../kernels/device.ts";

/** A checkpoint's file of the adapter, in the form of `adapter_save`. */
export const CHECKPOINT_ADAPTER = "adapter.gguf";

/** What loading a model takes: the file, the device, and how much the engine must hold at a time. */
export interface LoadRequest {
  /** The GGUF file. */
  path: string;
  device: DeviceRequest;
  /** Type of matmul operands; `auto`: f32 on a software adapter, else f16 where the device has it. */
  compute: "auto" | "f32" | "f16";
  /** Type of cached keys and values; `auto` as `compute`. */
  kv: "auto" | "f32" | "f16";
  /** Longest sequence in tokens. */
  max_context: number;
  /** Rows of a decode step: sequences that generate at the same time. */
  max_sequences: number;
  /** Capacity of the key/value cache in tokens, rounded up to whole pages. */
  kv_tokens: number;
  /** Most rows that one micro-batch of training, or one prefill step, sends through the model. */
  micro_batch_tokens: number;
  /** Rows that go through the vocabulary at a time in the loss. */
  loss_chunk_rows: number;
  /** Training computes each layer's activations a second time instead of keeping them; left out: it keeps them. */
  gradient_checkpointing?: boolean;
  /**
   * Room for training is made at loading; left out: as it is needed. Adapters are opened later, and the arrays of a step's
   * targets grow with the steps: seldom does one reach the most that it could.
   */
  demand?: EngineDemand;
}

/** What a run asks of the engine at most. */
export interface EngineDemand {
  /** Of every adapter. */
  lora: LoraShape;
  /** Adapters that are open at a time beside the one that learns; they are opened later, and one more is a `conflict`. */
  other_adapters: number;
  /** Trained tokens of a step, or scored ones of a request. */
  targets: number;
  /** Whether divergences will be asked for. */
  divergence: boolean;
}

/** What an engine tells of the model that it has loaded. */
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

/** The shape of an adapter: ranks of its pairs, the factor alpha / rank, and the projections that have one. */
export interface LoraShape {
  rank: number;
  alpha: number;
  targets: LoraTarget[];
}

/** Where an adapter's values come from. `init`: A normal with deviation 1/sqrt(in), B zero. */
export type AdapterSource =
  | { type: "init"; lora: LoraShape; seed: number }
  | { type: "file"; path: string }
  | { type: "copy"; adapter: string };

export interface AdapterFacts {
  lora: LoraShape;
  parameters: number;
  /** Grows with every change of its values. */
  version: number;
}

/** Which ids may be drawn: the distribution that is drawn from, and whose log-probabilities are told, has no others. */
export type TokenMaskRequest =
  /** The same ids at every position. */
  | { type: "allowed_tokens"; tokens: number[] }
  /**
   * The drawn text is JSON that satisfies a schema, given as text, if it ends with a stop token; cut off by `max_tokens`
   * it is the beginning of one. Stop tokens, at least one, are drawn where the text may end and only there. The generation
   * takes one step at a time. docs/reference/structured_output.md lists the keywords; others are `config_invalid`.
   */
  | { type: "json_schema"; schema: string };

export interface SamplingRequest {
  /** 0 takes the largest logit (the lowest id of equals). */
  temperature: number;
  top_p: number;
  /** 0: all. */
  top_k: number;
  /** The token at position p of the sequence is drawn with (rng_key, p): the same whatever runs beside it. */
  rng_key: RngKey;
  mask: TokenMaskRequest | null;
}

/** `stop_token`: the last token is one of `stop_tokens`; `max_tokens`; `cancelled`. */
export type GenerationStop = "stop_token" | "max_tokens" | "cancelled";

/** Tokens that a generation drew since its last block. Log-probabilities belong to the distribution drawn from. */
export interface TokenBlock {
  sequence: number;
  tokens: number[];
  logprobs: number[];
  /** Why the generation ended; null while it goes on. */
  stop: GenerationStop | null;
}

/** One sequence to learn from or to score. Arrays are as long as `tokens`. */
export interface TrainingSample {
  tokens: Uint32Array;
  /** Samples of one `prefix_group` have the first `prefix_length` tokens in common; they are computed once. */
  prefix_group: number;
  /** 0: nothing is shared. No token of the prefix may be trained. */
  prefix_length: number;
  /** 1 where the token is trained, that is, predicted from the tokens before it; never at index 0. */
  loss_mask: Uint8Array;
  /** The fragments of one trajectory carry the same number and share one sequence-level ratio. */
  trajectory: number;
  /** Per token; null for `sft`. */
  advantages: Float32Array | null;
  /** Log-probabilities of the policy that sampled; null: the policy of this pass itself, so that every ratio is 1. */
  old_logprobs: Float32Array | null;
  /** Log-probabilities of the reference policy; null when the loss has no KL term. */
  reference_logprobs: Float32Array | null;
  /** Constant factor of the token's policy term (truncated importance sampling); null: 1. */
  weights: Float32Array | null;
}

/** Sums over the whole step are divided by `normalizer` once, whatever the micro-batches. */
export type LossRequest =
  /** Σ m·(−logπ) / normalizer */
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
   * The loss of pairs of completions, see preferenceLoss. The samples of one trajectory are a pair, those of its chosen
   * completion first; `dpo` and `ipo` need reference log-probabilities.
   */
  | PairLossOptions & {
    type: "preference";
    /** By sample: whether it belongs to the rejected completion of its pair. */
    rejected: boolean[];
    /** Pairs of the step. */
    normalizer: number;
  };

/** AdamW's settings of one step. */
export interface OptimizerRequest {
  learning_rate: number;
  beta1: number;
  beta2: number;
  eps: number;
  weight_decay: number;
  /** Gradients are scaled down to this global norm; 0: never. */
  max_grad_norm: number;
}

/** What a step measured before it: lists have a value per trained token, in the order of the sample's mask. */
export interface SampleMeasure {
  logprobs: Float32Array;
  entropies: Float32Array;
  /** π/π_old, or the trajectory's ratio; empty for a preference loss. */
  ratios: Float32Array;
  /** The score of the sample's completion; null but for a preference loss. */
  score: number | null;
  /** −1 clipped below, 1 clipped above, else 0. */
  clipped: Int8Array;
}

/** What one optimiser step gives back: the loss, what was counted, and the measures of every sample. */
export interface TrainStepResult {
  loss: number;
  /** Before clipping. */
  grad_norm: number;
  /** A loss or gradient that is not finite: nothing was changed. */
  skipped: boolean;
  /** The adapter's version after the step. */
  version: number;
  /** Optimiser steps so far. */
  step: number;
  /** Rows that went through the model, shared ones once. */
  computed_tokens: number;
  trained_tokens: number;
  micro_batches: number;
  /** Share of parameters whose step is at least half due to eps (sqrt of the second moment below eps). */
  eps_dominated_fraction: number;
  samples: SampleMeasure[];
}

/** What the engine did since it was loaded. */
export interface EngineCounters {
  submits: number;
  readbacks: number;
  dispatches: number;
  /** Given tokens that went through the model for a sequence; shared ones once. */
  prefill_tokens: number;
  /** Tokens drawn. */
  decode_tokens: number;
  /** Decode steps, and the rows that they could have held. */
  decode_steps: number;
  decode_rows: number;
  kv_pages_used: number;
  kv_pages_total: number;
  /** Bytes on the device by component: weights, adapters, optimizer, kv, sampler, activations, loss, recorder, staging. */
  bytes: Record<string, number>;
}

/** Every request with its answer. Sequence numbers are the client's choice and its own. */
export interface EngineMethods {
  probe: { request: DeviceRequest; answer: DeviceFacts };
  load: { request: LoadRequest; answer: ModelFacts };
  adapter_open: { request: { adapter: string; source: AdapterSource }; answer: AdapterFacts };
  /** Writes the GGUF adapter, and a PEFT folder when asked. */
  adapter_save: {
    request: { adapter: string; path: string; peft_dir: string | null };
    answer: { bytes: number; sha256: string };
  };
  adapter_close: { request: { adapter: string }; answer: null };
  /**
   * Moves the adapter's values along the line from another of its shape: from + scale · (adapter − from), scale from
   * 0 to 1; 0 copies every bit. Moments and steps stay. Live sequences of the adapter are a `conflict`.
   */
  adapter_interpolate: { request: { adapter: string; from: string; scale: number }; answer: AdapterFacts };
  /** Adapter and optimiser moments, every bit, as `adapter.gguf` and `optimizer.safetensors` in `directory`. */
  checkpoint_save: { request: { adapter: string; directory: string }; answer: null };
  checkpoint_load: { request: { adapter: string; directory: string }; answer: AdapterFacts };
  /** `adapter` null is the base model. Answers when the tokens are accepted; they run with the next batch. */
  sequence_open: {
    request: { sequence: number; adapter: string | null; parent: number | null; tokens: number[] };
    answer: null;
  };
  sequence_extend: { request: { sequence: number; tokens: number[] }; answer: null };
  /** Keeps the first `length` tokens; what was drawn behind them is forgotten. */
  sequence_truncate: { request: { sequence: number; length: number }; answer: null };
  /** Answers when the generation is accepted; the tokens follow as {@link TokenBlock} messages. */
  sequence_generate: {
    request: { sequence: number; max_tokens: number; stop_tokens: number[]; sampling: SamplingRequest };
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
   * KL(from‖adapter) at the place of every masked token, over the whole vocabulary, in nats and in the order of each
   * sample's mask. Two adapters must have one shape.
   */
  divergence: {
    request: { adapter: string | null; from: string | null; samples: TrainingSample[] };
    answer: { divergences: Float32Array[] };
  };
  /** Forward, backward and one AdamW step over all samples. Live sequences of the adapter are a `conflict`. */
  train_step: {
    request: { adapter: string; samples: TrainingSample[]; loss: LossRequest; optimizer: OptimizerRequest };
    answer: TrainStepResult;
  };
  counters: { request: null; answer: EngineCounters };
  /** Destroys the device; nothing follows. */
  shutdown: { request: null; answer: null };
}

/** The name of a request to the engine. */
export type EngineMethod = keyof EngineMethods;

/** What the engine tells of a generation, unasked. */
export type EngineNotice =
  | { block: TokenBlock }
  /** A generation that failed on the engine's side. */
  | { failed: { sequence: number; error: ErrorRecord } };
