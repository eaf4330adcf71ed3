/**
 * The output head and the loss in a training pass. Only rows that predict a trained token are projected to logits, one
 * chunk of rows at a time. The gradient of the logits overwrites the logits.
 */

import { crossEntropyBackward, tokenLogprobs, vocabularyPartials } from "../../kernels/loss/cross_entropy.ts";
import { klDivergence } from "../../kernels/loss/kl_divergence.ts";
import { policyLoss, sequenceRatio, sftLoss } from "../../kernels/loss/policy_loss.ts";
import { preferenceLoss } from "../../kernels/loss/preference_loss.ts";
import { matmul } from "../../kernels/matmul/matmul.ts";
import { rmsNormBackward } from "../../kernels/rms_norm/rms_norm.ts";
import { fill, gatherRows, scatterAddRows } from "../../kernels/rows/rows.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import type { LossRequest } from "../protocol/protocol.ts";
import { normalizeOutput, projectToLogits } from "../model/output_head.ts";
import type { Model } from "../model/transformer.ts";
import type { MicroBatch } from "./packing.ts";
import type { StepViews } from "./step_arrays.ts";

/** A micro-batch after the forward pass through the layers. */
export interface HeadPass {
  batch: MicroBatch;
  /** The hidden states after the last layer, `[N, C]`. */
  hidden_states: Tensor;
  arrays: StepViews;
  /** The index of the batch's first target in the arrays of the step. */
  first_target: number;
}

/** The loss, which inputs it has, and where its gradient goes. */
export interface HeadLoss {
  loss: LossRequest;
  has_old_logprobs: boolean;
  has_reference: boolean;
  /** ∂loss/∂hidden_states, `[N, C]`, overwritten. */
  d_hidden_states: Tensor;
}

/** Chunks start at multiples of this many rows, so that views of them can be bound. */
const CHUNK_STEP = 64;

/**
 * The rows of a chunk, a multiple of {@link CHUNK_STEP} and at least one of it.
 *
 * @param rows The most rows that there are.
 * @param wanted The rows asked for.
 * @param bindable The most rows of logits that the device binds.
 */
export function chunkRows(rows: number, wanted: number, bindable: number): number {
  const most = Math.min(wanted, bindable, Math.ceil(rows / CHUNK_STEP) * CHUNK_STEP);
  return Math.max(CHUNK_STEP, Math.floor(most / CHUNK_STEP) * CHUNK_STEP);
}

/** Whether the gradient of one token depends on the log-probabilities of all tokens of its trajectory. */
export function joinsTrajectories(loss: LossRequest, has_old_logprobs: boolean): boolean {
  if (loss.type === "policy") return loss.importance_sampling_level === "sequence" && has_old_logprobs;
  return loss.type === "preference";
}

/** Computes losses and their gradients. The buffers are freed with their allocator. */
export class LossHead {
  readonly #hidden: Tensor;
  readonly #normed: Tensor;
  readonly #d_normed: Tensor;
  readonly #d_hidden: Tensor;
  readonly #rstd: Tensor;
  readonly #logits: Tensor;
  readonly #partials: Tensor;
  readonly #index: Tensor;
  readonly #ranges: Tensor;
  readonly #chunk: number;
  #other_logits: Tensor | null = null;

  /** @param options rows: the most targets of a micro-batch; chunk_rows: the most rows of a chunk. */
  constructor(
    readonly allocator: Allocator,
    readonly model: Model,
    options: { rows: number; chunk_rows: number },
  ) {
    const { rows } = options, { width, vocabulary } = model.shape;
    const create = (...shape: number[]) => allocator.create("loss", shape);
    this.#chunk = chunkRows(rows, options.chunk_rows, Math.floor(allocator.limit_bytes / (4 * vocabulary)));
    this.#hidden = create(rows, width);
    this.#normed = create(rows, width);
    this.#d_normed = create(rows, width);
    this.#d_hidden = create(rows, width);
    this.#rstd = create(rows);
    this.#logits = create(this.#chunk, vocabulary);
    this.#partials = create(vocabularyPartials(this.#chunk, vocabulary));
    this.#index = allocator.create("loss", [rows], "u32");
    this.#ranges = allocator.create("loss", [rows, 2], "u32");
  }

  /** Records the log-probability and the entropy of every target of the batch. */
  score(pass: HeadPass): void {
    if (pass.batch.targets.length === 0) return;
    const normed = this.#gather(pass);
    for (const [start, rows] of this.#chunks(pass)) this.#chunkLogprobs(pass, normed, start, rows);
  }

  /** Records and keeps the normalised rows of the batch under policy p, for {@link diverge}. */
  hold(pass: HeadPass): void {
    if (pass.batch.targets.length > 0) this.#gather(pass, this.#d_normed);
  }

  /** Records KL(p‖q) in nats at every target of the batch: p is from {@link hold}, q is the policy of this pass. */
  diverge(pass: HeadPass): void {
    const { arrays, batch, first_target } = pass, count = batch.targets.length;
    if (count === 0) return;
    const q_normed = this.#gather(pass), p_normed = view(this.#d_normed, q_normed.shape);
    const q_logsumexp = view(arrays.results, arrays.logsumexp.shape);
    const p_logits = this.#logits, q_logits = this.#otherLogits();
    const step = Math.min(p_logits.shape[0]!, q_logits.shape[0]!);
    for (let start = 0; start < count; start += step) {
      const rows = Math.min(step, count - start), first = first_target + start;
      const logits = {
        p_logits: this.#project(p_normed, { start, rows, into: p_logits }),
        q_logits: this.#project(q_normed, { start, rows, into: q_logits }),
      };
      const shared = { ...arrays, partials: this.#partials };
      tokenLogprobs(this.model.recorder, { ...shared, logits: logits.p_logits }, first);
      const q = { ...shared, logits: logits.q_logits, logsumexp: q_logsumexp };
      tokenLogprobs(this.model.recorder, q, first);
      klDivergence(this.model.recorder, {
        ...shared,
        ...logits,
        p_logsumexp: arrays.logsumexp,
        q_logsumexp,
      }, first);
    }
  }

  /** Allocates the buffer that only {@link diverge} uses. */
  reserveDivergence(): void {
    this.#otherLogits();
  }

  /** The logits of the second policy, `[CHUNK_STEP, V]`. They are allocated at first use. */
  #otherLogits(): Tensor {
    return this.#other_logits ??= this.allocator.create("loss", [CHUNK_STEP, this.model.shape.vocabulary]);
  }

  /** Records the loss of the batch and its gradient. `d_hidden_states` is zero in rows that predict no trained token. */
  learn(pass: HeadPass, options: HeadLoss): void {
    const { recorder, weights } = this.model, { d_hidden_states } = options;
    fill(recorder, d_hidden_states, 0);
    const count = pass.batch.targets.length;
    if (count === 0) return;
    const normed = this.#gather(pass), d_normed = view(this.#d_normed, normed.shape);
    const { arrays } = pass, is_joint = joinsTrajectories(options.loss, options.has_old_logprobs);
    const chunks = this.#chunks(pass);
    if (is_joint) {
      for (const [start, rows] of chunks) this.#chunkLogprobs(pass, normed, start, rows);
      this.#joinTrajectories(pass, options);
    }
    for (const [start, rows] of chunks) {
      const logits = is_joint && chunks.length > 1
        ? this.#project(normed, { start, rows })
        : is_joint
        ? view(this.#logits, [rows, this.model.shape.vocabulary])
        : this.#chunkLogprobs(pass, normed, start, rows);
      this.#chunkLoss(pass, options, { start, rows });
      const { logit_soft_cap } = this.model.shape;
      crossEntropyBackward(recorder, { ...arrays, logits }, pass.first_target + start, logit_soft_cap);
      const d_chunk = this.#rows(d_normed, start, rows);
      // Most entries are below the smallest f16, so this product always has f32 operands.
      matmul(recorder, "nn", { x: logits, weight: weights.output, y: d_chunk }, { compute: "f32" });
    }
    const hidden = view(this.#hidden, normed.shape), d_hidden = view(this.#d_hidden, normed.shape);
    const rstd = view(this.#rstd, [count]), gamma = weights.output_norm;
    rmsNormBackward(recorder, { x: hidden, gamma, rstd, d_y: d_normed, d_x: d_hidden }, {
      accumulate: false,
    });
    scatterAddRows(recorder, { y: d_hidden, index: view(this.#index, [count]), x: d_hidden_states });
  }

  /** Gathers the rows of the targets and normalises them, `[R, C]`. */
  #gather({ batch, hidden_states }: HeadPass, into = this.#normed): Tensor {
    const { recorder, shape } = this.model, count = batch.targets.length;
    const index = view(this.#index, [count]);
    this.allocator.write(index, Uint32Array.from(batch.targets, (target) => target.row));
    const hidden = view(this.#hidden, [count, shape.width]),
      normed = view(into, [count, shape.width]);
    gatherRows(recorder, { x: hidden_states, index, y: hidden });
    const rstd = view(this.#rstd, [count]);
    normalizeOutput(this.model, { hidden, normed, rstd });
    return normed;
  }

  #chunks({ batch }: HeadPass): [start: number, rows: number][] {
    const count = batch.targets.length, out: [number, number][] = [];
    for (let start = 0; start < count; start += this.#chunk) {
      out.push([start, Math.min(this.#chunk, count - start)]);
    }
    return out;
  }

  #rows(tensor: Tensor, start: number, rows: number): Tensor {
    const width = tensor.shape[1]!;
    return view(tensor, [rows, width], start * width);
  }

  #project(
    normed: Tensor,
    { start, rows, into = this.#logits }: { start: number; rows: number; into?: Tensor },
  ): Tensor {
    const logits = view(into, [rows, this.model.shape.vocabulary]);
    projectToLogits(this.model, { normed: this.#rows(normed, start, rows), logits });
    return logits;
  }

  /** Projects a chunk to logits, records log-probabilities and entropies of its targets, and returns the logits. */
  #chunkLogprobs({ arrays, first_target }: HeadPass, normed: Tensor, start: number, rows: number): Tensor {
    const logits = this.#project(normed, { start, rows });
    const tensors = { ...arrays, logits, partials: this.#partials };
    tokenLogprobs(this.model.recorder, tensors, first_target + start);
    return logits;
  }

  /** Records what depends on all log-probabilities of a trajectory: its sequence ratio, or the loss of a pair. */
  #joinTrajectories({ batch, arrays, first_target }: HeadPass, { loss, has_reference }: HeadLoss): void {
    const { recorder } = this.model;
    const ranges = (width: number, rows: readonly number[]) => {
      this.allocator.write(this.#ranges, Uint32Array.from(rows, (row) => first_target + row));
      return view(this.#ranges, [rows.length / width, width]);
    };
    if (loss.type !== "preference") {
      return sequenceRatio(recorder, { ...arrays, ranges: ranges(2, batch.trajectories.flat()) });
    }
    const { type: _type, rejected, ...options } = loss;
    const pairs = batch.trajectories.flatMap(([from, to]) => {
      const is_rejected = batch.targets.slice(from, to).map(({ sample }) => rejected[sample]!);
      return [from, from + is_rejected.indexOf(true), to];
    });
    const reference_logprob = has_reference ? arrays.reference_logprob : null;
    preferenceLoss(recorder, { ...arrays, reference_logprob, ranges: ranges(3, pairs) }, options);
  }

  /** Records the loss of a chunk and its derivatives with respect to the log-probabilities; a pair's are recorded before. */
  #chunkLoss(
    { arrays, first_target }: HeadPass,
    { loss, has_old_logprobs, has_reference }: HeadLoss,
    { start, rows }: { start: number; rows: number },
  ): void {
    if (loss.type === "preference") return;
    const { recorder } = this.model, range = { first_row: first_target + start, rows };
    if (loss.type === "sft") {
      return sftLoss(recorder, arrays, { ...range, normalizer: loss.normalizer });
    }
    const ratio = joinsTrajectories(loss, has_old_logprobs)
      ? { log_ratio: arrays.log_ratio }
      : has_old_logprobs
      ? { old_logprob: arrays.old_logprob }
      : null;
    const reference_logprob = has_reference ? arrays.reference_logprob : null;
    const { clip_low, clip_high, kl_coefficient, normalizer } = loss;
    policyLoss(recorder, { ...arrays, ratio, reference_logprob }, {
      ...range,
      clip_low,
      clip_high,
      kl_coefficient,
      normalizer,
    });
  }
}
