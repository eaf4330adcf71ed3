/**
 * Scores samples and trains on them. A micro-batch is one submit, on a GPU one for each layer of each pass and chunk of
 * logits; each call is one readback. A call can be abandoned between micro-batches.
 */

import { type Clock, systemClock } from "../../core/clock.ts";

import { ServiceError } from "../../core/errors.ts";
import { hearMessages } from "../../core/pauses.ts";
import { adamw, parseAdamwStats } from "../../kernels/adamw/adamw.ts";
import { attentionForward } from "../../kernels/attention/attention.ts";
import { attentionRowAlignment } from "../../kernels/attention/attention_plan.ts";
import { kvRound } from "../../kernels/kv_pages/kv_pages.ts";
import { fill } from "../../kernels/rows/rows.ts";
import { MAX_PARTIALS, sumOfSquares } from "../../kernels/sum/sum.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import { deviceForm } from "../../kernels/variant.ts";
import type {
  LossRequest,
  OptimizerRequest,
  SampleMeasure,
  TrainingSample,
  TrainStepResult,
} from "../protocol/protocol.ts";
import { Activations } from "../model/activations.ts";
import { type DeviceAdapter, LEAST_PADDED_RANK } from "../model/device_adapter.ts";
import { type AttentionTensors, forward, type ForwardPass, type Model } from "../model/transformer.ts";
import { backward, Gradients } from "../model/transformer_backward.ts";
import { checkSamples, type SampleLimits } from "./check_samples.ts";
import { LossHead } from "./loss_head.ts";
import { type Loss, lossOf } from "./losses.ts";
import { type MicroBatch, microBatchRows, packSamples } from "./packing.ts";
import { QueuedWork } from "./queued_work.ts";
import { StepArrays, type StepViews } from "./step_arrays.ts";

/** The sizes and types of a trainer. */
export interface TrainerOptions {
  /** The tokens of a micro-batch; its capacity in rows is {@link microBatchRows}. */
  micro_batch_tokens: number;
  /** The rows that are projected to logits at a time. */
  loss_chunk_rows: number;
  /**
   * Keeps only the hidden states between layers; the backward pass recomputes the activations. False by default. They are
   * kept in half precision where the model computes in it: gradients then differ by its rounding, scores do not.
   */
  gradient_checkpointing?: boolean;
  /** The type of the sampler's cache; keys and values are rounded to it in training too. f32 by default. */
  kv?: "f32" | "f16";
  /** Times the device's work; absent: the system's. */
  clock?: Clock;
}

/** A call's pass over its micro-batches. */
interface Pass {
  queued: QueuedWork;
  signal: AbortSignal | undefined;
  /** Records a micro-batch. @param first_target The place of its first target in the arrays of the call. */
  record(batch: MicroBatch, first_target: number): void;
}

/** The size of the largest call. */
export interface TrainerDemand {
  /** The adapters' rank, a multiple of 4. */
  padded_rank: number;
  /** The most trained or scored tokens of a call. */
  targets: number;
  /** Whether {@link Trainer.divergence} is called. */
  divergence: boolean;
}

/** The buffers of a pass. They are allocated at first use, and again for an adapter of a larger rank. */
interface Arena {
  padded_rank: number;
  activations: Activations;
  gradients: Gradients;
  head: LossHead;
  ids: Tensor;
  positions: Tensor;
  packed_rows: Tensor;
}

/** Scores samples, compares policies and takes optimiser steps. Calls must not overlap. */
export class Trainer {
  readonly #alignment: number;
  readonly #capacity: number;
  readonly #arrays: StepArrays;
  readonly #norm_sq: Tensor;
  readonly #stats: Tensor;
  readonly #norm_partials: Tensor;
  /** By kind of call, because they differ in the time of a row. */
  readonly #queued: { score: QueuedWork; divergence: QueuedWork; step: QueuedWork };
  readonly allocator: Allocator;
  #arena: Arena | null = null;
  #arena_scope: Allocator | null = null;

  constructor(outer: Allocator, readonly model: Model, readonly options: TrainerOptions) {
    const allocator = this.allocator = outer.scope();
    this.#alignment = attentionRowAlignment(model.recorder.gpu);
    this.#capacity = microBatchRows(options.micro_batch_tokens, this.#alignment);
    this.#arrays = new StepArrays(allocator, model.recorder);
    this.#norm_sq = allocator.create("optimizer", [1]);
    this.#stats = allocator.create("optimizer", [4], "u32");
    this.#norm_partials = allocator.create("optimizer", [MAX_PARTIALS]);
    const queued = () => new QueuedWork(options.clock ?? systemClock);
    this.#queued = { score: queued(), divergence: queued(), step: queued() };
  }

  /** Allocates for calls of up to this size, so that the calls themselves allocate nothing. */
  reserve({ padded_rank, targets, divergence }: TrainerDemand): void {
    const { head } = this.#prepare(padded_rank);
    if (divergence) head.reserveDivergence();
    this.model.recorder.reserveReadback(this.#stepReads(this.#arrays.reserve(targets)));
  }

  /**
   * The log-probabilities of the trained tokens by teacher forcing, in the order of each sample's mask.
   *
   * @param adapter Null for the base model.
   * @param signal Abandons the call before its next micro-batch.
   * @throws {ServiceError} `config_invalid` for samples that are malformed or do not fit into a micro-batch; the
   * signal's reason.
   */
  async score(
    adapter: DeviceAdapter | null,
    samples: readonly TrainingSample[],
    signal?: AbortSignal,
  ): Promise<Float32Array[]> {
    const batches = this.#pack(samples, "score");
    if (batches.length === 0) return samples.map(() => new Float32Array(0));
    const arrays = this.#arrays.prepare(batches, samples), arena = this.#prepareFor(adapter);
    const queued = this.#queued.score;
    await this.#submitAllButLast(batches, {
      ...{ queued, signal },
      record: (batch, first_target) => {
        const hidden_states = this.#forward(arena, adapter, batch);
        arena.head.score({ batch, hidden_states, arrays, first_target });
      },
    });
    const [logprobs] = await this.#readLast(queued, [arrays.logprob]);
    return bySample(batches, samples, new Float32Array(logprobs!));
  }

  /**
   * KL(p‖q) of the next-token distributions over all tokens of the vocabulary, in nats. There is one value for each
   * trained token, in the order of each sample's mask.
   *
   * @param policies Adapters of the same shape, or null for the base model.
   * @param signal As {@link score}.
   * @throws {ServiceError} As {@link score}.
   */
  async divergence(
    { p, q }: { p: DeviceAdapter | null; q: DeviceAdapter | null },
    samples: readonly TrainingSample[],
    signal?: AbortSignal,
  ): Promise<Float32Array[]> {
    const batches = this.#pack(samples, "compare policies on");
    if (batches.length === 0) return samples.map(() => new Float32Array(0));
    const arrays = this.#arrays.prepare(batches, samples), arena = this.#prepareFor(p ?? q);
    const queued = this.#queued.divergence;
    await this.#submitAllButLast(batches, {
      ...{ queued, signal },
      record: (batch, first_target) => {
        arena.head.hold({ batch, hidden_states: this.#forward(arena, p, batch), arrays, first_target });
        arena.head.diverge({ batch, hidden_states: this.#forward(arena, q, batch), arrays, first_target });
      },
    });
    const [divergences] = await this.#readLast(queued, [arrays.divergence]);
    return bySample(batches, samples, new Float32Array(divergences!));
  }

  /**
   * One AdamW step on the loss over all samples. A loss or gradient that is not finite changes nothing, nor does a step
   * that the signal abandons before its last micro-batch.
   *
   * @throws {ServiceError} As {@link score}; `config_invalid` also when no token is trained, or for a malformed pair.
   */
  async step(
    adapter: DeviceAdapter,
    samples: readonly TrainingSample[],
    { loss: request, optimizer, signal }: {
      loss: LossRequest;
      optimizer: OptimizerRequest;
      signal?: AbortSignal | undefined;
    },
  ): Promise<TrainStepResult> {
    const loss = lossOf(request, samples);
    const batches = this.#pack(samples, "train on", loss.recordTrajectories !== null);
    if (!batches.some((batch) => batch.targets.length > 0)) {
      throw new ServiceError("config_invalid", "Cannot take a step without a token to train");
    }
    const { recorder } = this.model;
    const arrays = this.#arrays.prepare(batches, samples), arena = this.#prepareFor(adapter);
    for (const part of adapter.training.gradient.parts) fill(recorder, part, 0);
    const queued = this.#queued.step;
    await this.#submitAllButLast(batches, {
      ...{ queued, signal },
      record: (batch, first_target) => this.#learn(arena, adapter, batch, { arrays, first_target, loss }),
    });
    this.#optimize(adapter, optimizer);
    const read = await this.#readLast(queued, this.#stepReads(arrays));
    return this.#result(adapter, { batches, samples, read, loss });
  }

  /** The gradient of the last step, for tests. */
  async readGradient(adapter: DeviceAdapter): Promise<Float32Array> {
    return await adapter.training.gradient.read(this.model.recorder);
  }

  /** Frees what a pass writes, for others to use. The next call allocates it. */
  release(): void {
    if (!this.#arena_scope) return;
    this.#arena_scope.destroy();
    this.#arena = this.#arena_scope = null;
    this.model.recorder.forgetAll();
  }

  free(): void {
    this.allocator.destroy();
    this.model.recorder.forgetAll();
  }

  /**
   * Records all micro-batches, and submits all but the last. It waits for the device when the queue is long, and for
   * messages to this thread at each one, so that the signal can abort.
   */
  async #submitAllButLast(batches: readonly MicroBatch[], { queued, signal, record }: Pass): Promise<void> {
    const { recorder } = this.model;
    let first_target = 0;
    queued.begin();
    for (const [i, batch] of batches.entries()) {
      signal?.throwIfAborted();
      record(batch, first_target);
      first_target += batch.targets.length;
      const is_long = queued.add(batch.ids.length);
      if (i === batches.length - 1) return;
      if (is_long) {
        await recorder.submitAndWait();
        queued.done();
      } else if (recorder.has_recorded) recorder.submit();
      if (signal) await hearMessages();
    }
  }

  /** Submits the rest of a call and reads its results. */
  async #readLast(queued: QueuedWork, tensors: readonly Tensor[]): Promise<ArrayBuffer[]> {
    const read = await this.model.recorder.submitAndRead(tensors);
    queued.done();
    return read;
  }

  /** The tensors that are read back after a step, in the order that {@link #result} expects. */
  #stepReads({ results, logprob, entropy }: StepViews): Tensor[] {
    return [this.#stats, this.#norm_sq, results, logprob, entropy];
  }

  #pack(
    samples: readonly TrainingSample[],
    use: SampleLimits["use"],
    joins_fragments = false,
  ): MicroBatch[] {
    const { shape: { vocabulary }, positions: max_context } = this.model;
    checkSamples(samples, { use, vocabulary, max_context });
    return packSamples(samples, { capacity: this.#capacity, alignment: this.#alignment, joins_fragments });
  }

  #forward(arena: Arena, adapter: DeviceAdapter | null, batch: MicroBatch): Tensor {
    return forward(this.#pass(arena, adapter, batch));
  }

  /** Uploads the rows of a micro-batch and returns its pass. */
  #pass<A extends DeviceAdapter | null>(
    arena: Arena,
    adapter: A,
    batch: MicroBatch,
  ): ForwardPass & { adapter: A; packed_rows: Tensor } {
    const rows = batch.ids.length, { recorder } = this.model;
    const ids = view(arena.ids, [rows]), positions = view(arena.positions, [rows]);
    const packed_rows = view(arena.packed_rows, [rows, 4]);
    this.allocator.write(ids, batch.ids);
    this.allocator.write(positions, batch.positions);
    this.allocator.write(packed_rows, batch.rows);
    const { kv = "f32" } = this.options;
    const attend = (_: number, { rules, ...tensors }: AttentionTensors) => {
      kvRound(recorder, tensors, kv);
      attentionForward(recorder, { ...tensors, rows: packed_rows }, rules);
    };
    const { activations } = arena;
    const given = { ids, positions, packed_rows, submits_layers: true };
    return { model: this.model, adapter, rows, ...given, activations, attend };
  }

  #learn(
    arena: Arena,
    adapter: DeviceAdapter,
    batch: MicroBatch,
    step: { arrays: StepViews; first_target: number; loss: Loss },
  ): void {
    const pass = this.#pass(arena, adapter, batch), hidden_states = forward(pass), { gradients } = arena;
    const { arrays, first_target, loss } = step;
    const d_hidden_states = view(gradients.tensors.hidden_states, [pass.rows, this.model.shape.width]);
    arena.head.learn({ batch, hidden_states, arrays, first_target }, { loss, d_hidden_states });
    backward({ ...pass, gradients });
  }

  #optimize(adapter: DeviceAdapter, request: OptimizerRequest): void {
    const { recorder } = this.model, { gradient, m, v } = adapter.training;
    sumOfSquares(recorder, { x: gradient.parts, partials: this.#norm_partials, out: this.#norm_sq });
    const { learning_rate: lr, ...options } = request;
    const parts = adapter.params.parts.map((p, i) => ({
      ...{ p, g: gradient.parts[i]!, m: m.parts[i]!, v: v.parts[i]! },
    }));
    const tensors = { parts, norm_sq: this.#norm_sq, stats: this.#stats };
    adamw(recorder, tensors, { ...options, lr, step: adapter.step + 1 });
  }

  #result(
    adapter: DeviceAdapter,
    { batches, samples, read, loss }: {
      batches: MicroBatch[];
      samples: readonly TrainingSample[];
      read: ArrayBuffer[];
      loss: Loss;
    },
  ): TrainStepResult {
    const stats = parseAdamwStats(new Uint32Array(read[0]!));
    const results = new Float32Array(read[2]!), count = results.length / 4;
    const column = (i: number) => bySample(batches, samples, results.subarray(i * count, (i + 1) * count));
    const total = results.subarray(0, count).reduce((sum, value) => sum + value, 0);
    const logprobs = bySample(batches, samples, new Float32Array(read[3]!));
    const entropies = bySample(batches, samples, new Float32Array(read[4]!));
    const measured = column(1), clipped = column(2);
    if (!stats.skipped) {
      adapter.step++;
      adapter.version++;
    }
    const { elements, parameters } = adapter.layout;
    return {
      loss: total,
      grad_norm: Math.sqrt(new Float32Array(read[1]!)[0]!),
      skipped: stats.skipped,
      version: adapter.version,
      step: adapter.step,
      computed_tokens: batches.reduce((sum, batch) => sum + batch.computed, 0),
      trained_tokens: batches.reduce((sum, batch) => sum + batch.targets.length, 0),
      micro_batches: batches.length,
      // Padding has no gradient, so eps dominates all of it: it is subtracted.
      eps_dominated_fraction: stats.skipped
        ? 0
        : (stats.eps_dominated - (elements - parameters)) / parameters,
      samples: samples.map((_, i): SampleMeasure => ({
        logprobs: logprobs[i]!,
        entropies: entropies[i]!,
        ...loss.measure(measured[i]!),
        clipped: Int8Array.from(clipped[i]!),
      })),
    };
  }

  #prepareFor(adapter: DeviceAdapter | null): Arena {
    return this.#prepare(adapter?.layout.padded_rank ?? LEAST_PADDED_RANK);
  }

  #prepare(padded_rank: number): Arena {
    if (this.#arena && this.#arena.padded_rank >= padded_rank) return this.#arena;
    this.release();
    const { model } = this, rows = this.#capacity;
    const allocator = this.#arena_scope = this.allocator.scope();
    const component = "activations", form = deviceForm(model.recorder.gpu);
    const kept = this.options.gradient_checkpointing ? "hidden_states" : "activations";
    // Where products round their operands to halves anyway.
    const stream = model.compute;
    return this.#arena = {
      padded_rank,
      activations: new Activations(allocator, model.shape, { rows, kept, stream, padded_rank, component }),
      gradients: new Gradients(allocator, model.shape, { rows, padded_rank, form }),
      head: new LossHead(allocator, model, { rows, chunk_rows: this.options.loss_chunk_rows }),
      ids: allocator.create(component, [rows], "u32"),
      positions: allocator.create(component, [rows], "u32"),
      packed_rows: allocator.create(component, [rows, 4], "u32"),
    };
  }
}

/** Splits an array of the step by sample, in the order of the positions. */
function bySample(
  batches: readonly MicroBatch[],
  samples: readonly TrainingSample[],
  values: Float32Array,
): Float32Array[] {
  const out: number[][] = samples.map(() => []);
  let at = 0;
  for (const batch of batches) for (const { sample } of batch.targets) out[sample]!.push(values[at++]!);
  return out.map((list) => Float32Array.from(list));
}
