/**
 * The output head and the loss in a training pass. Only rows that predict a trained token are projected to logits, one
 * chunk of rows at a time. The gradient of the logits overwrites the logits.
 */

import { crossEntropyBackward, tokenLogprobs, vocabularyPartials } from "../../kernels/loss/cross_entropy.ts";
import { klDivergence } from "../../kernels/loss/kl_divergence.ts";
import { matmul } from "../../kernels/matmul/matmul.ts";
import { gradientOperands } from "../../kernels/matmul/row_scales.ts";
import { rmsNormBackward } from "../../kernels/rms_norm/rms_norm.ts";
import { fill, gatherRows, scatterAddRows } from "../../kernels/rows/rows.ts";
import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import { normalizeOutput, projectToLogits } from "../model/output_head.ts";
import type { Model } from "../model/transformer.ts";
import type { Loss } from "./losses.ts";
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

/** The loss, and where its gradient goes. */
export interface HeadLoss {
  loss: Loss;
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

/** Computes losses and their gradients. The buffers are freed with their allocator. */
export class LossHead {
  readonly #hidden: Tensor;
  readonly #normed: Tensor;
  readonly #d_normed: Tensor;
  readonly #d_hidden: Tensor;
  readonly #rstd: Tensor;
  readonly #logits: Tensor;
  readonly #row_scales: Tensor;
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
    this.#row_scales = create(this.#chunk);
    this.#partials = create(vocabularyPartials(this.#chunk, vocabulary));
    this.#index = allocator.create("loss", [rows], "u32");
    this.#ranges = allocator.create("loss", [rows, 2], "u32");
  }

  /** Records the log-probability and the entropy of every target of the batch. */
  score(pass: HeadPass): void {
    if (pass.batch.targets.length === 0) return;
    const normed = this.#gather(pass);
    for (const [start, rows] of this.#chunks(pass)) {
      this.#chunkLogprobs(pass, normed, start, rows);
      this.model.recorder.submitToGpu();
    }
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
      this.model.recorder.submitToGpu();
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
  learn(pass: HeadPass, { loss, d_hidden_states }: HeadLoss): void {
    const { recorder, weights } = this.model;
    fill(recorder, d_hidden_states, 0);
    const count = pass.batch.targets.length;
    if (count === 0) return;
    const normed = this.#gather(pass), d_normed = view(this.#d_normed, normed.shape);
    const { arrays, batch } = pass, is_joint = loss.recordTrajectories !== null;
    const chunks = this.#chunks(pass);
    if (loss.recordTrajectories) {
      for (const [start, rows] of chunks) {
        this.#chunkLogprobs(pass, normed, start, rows);
        recorder.submitToGpu();
      }
      const ranges = (width: number, indices: readonly number[]) => this.#writeRanges(pass, width, indices);
      loss.recordTrajectories({ recorder, batch, arrays, ranges });
    }
    for (const [start, rows] of chunks) {
      const logits = is_joint && chunks.length > 1
        ? this.#project(normed, { start, rows })
        : is_joint
        ? view(this.#logits, [rows, this.model.shape.vocabulary])
        : this.#chunkLogprobs(pass, normed, start, rows);
      loss.recordRows?.(recorder, arrays, { first_row: pass.first_target + start, rows });
      const { logit_soft_cap } = this.model.shape;
      crossEntropyBackward(recorder, { ...arrays, logits }, pass.first_target + start, logit_soft_cap);
      const d_chunk = this.#rows(d_normed, start, rows);
      const scales = view(this.#row_scales, [rows]);
      const { row_scales, compute } = gradientOperands(recorder, this.model.compute, { x: logits, scales });
      matmul(recorder, "nn", { x: logits, weight: weights.output, y: d_chunk, row_scales }, { compute });
      recorder.submitToGpu();
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

  /** Uploads indices of the batch's targets, as `[n, width]` rows of the arrays. */
  #writeRanges({ first_target }: HeadPass, width: number, indices: readonly number[]): Tensor {
    this.allocator.write(this.#ranges, Uint32Array.from(indices, (index) => first_target + index));
    return view(this.#ranges, [indices.length / width, width]);
  }
}
