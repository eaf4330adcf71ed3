/** Per-target arrays of one optimiser step, over all of its micro-batches. */

import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import type { TrainingSample } from "../engine/protocol.ts";
import type { MicroBatch } from "./packing.ts";

const NAMES = [
  "advantage",
  "old_logprob",
  "reference_logprob",
  "weight",
  "logprob",
  "entropy",
  "g",
  "log_ratio",
  "divergence",
] as const;
type FloatName = typeof NAMES[number];

/** Views of `[R]` for the R targets of a step. */
export type StepViews = Record<FloatName, Tensor> & {
  /** `[R] u32`: ids of the predicted tokens. */
  targets: Tensor;
  /** `[R, 2]` and `[4, R]`, see tokenLogprobs and policyLoss. */
  logsumexp: Tensor;
  results: Tensor;
};

/** Buffers that grow with the largest step so far. */
export class StepArrays {
  #capacity = 0;
  #tensors:
    | { floats: Record<FloatName, Tensor>; targets: Tensor; logsumexp: Tensor; results: Tensor }
    | null = null;

  constructor(readonly allocator: Allocator, readonly recorder: Recorder) {}

  /** Uploads what the targets of the micro-batches, in order, need, and returns the views. */
  prepare(batches: readonly MicroBatch[], samples: readonly TrainingSample[]): StepViews {
    const targets = batches.flatMap((batch) => batch.targets);
    const count = Math.max(1, targets.length);
    this.#reserve(count);
    const { floats, targets: ids, logsumexp, results } = this.#tensors!;
    const views = Object.fromEntries(NAMES.map((name) => [name, view(floats[name], [count])]));
    const out = {
      ...views,
      targets: view(ids, [count]),
      logsumexp: view(logsumexp, [count, 2]),
      results: view(results, [4, count]),
    } as StepViews;
    const column = (from: (sample: TrainingSample) => Float32Array | null, fallback: number) =>
      Float32Array.from(targets, ({ sample, position }) => from(samples[sample]!)?.[position] ?? fallback);
    this.allocator.write(
      out.targets,
      Uint32Array.from(targets, (t) => samples[t.sample]!.tokens[t.position]!),
    );
    this.allocator.write(out.advantage, column((s) => s.advantages, 0));
    this.allocator.write(out.old_logprob, column((s) => s.old_logprobs, 0));
    this.allocator.write(out.reference_logprob, column((s) => s.reference_logprobs, 0));
    this.allocator.write(out.weight, column((s) => s.weights, 1));
    return out;
  }

  #reserve(count: number): void {
    if (count <= this.#capacity) return;
    const capacity = Math.max(1024, 2 * this.#capacity, count);
    this.free();
    this.#capacity = capacity;
    const create = (...shape: number[]) => this.allocator.create("loss", shape);
    const floats = Object.fromEntries(NAMES.map((name) => [name, create(capacity)])) as Record<
      FloatName,
      Tensor
    >;
    const targets = this.allocator.create("loss", [capacity], "u32");
    this.#tensors = { floats, targets, logsumexp: create(capacity, 2), results: create(4, capacity) };
  }

  free(): void {
    if (!this.#tensors) return;
    const { floats, ...rest } = this.#tensors;
    for (const tensor of [...Object.values(floats), ...Object.values(rest)]) {
      this.allocator.free(tensor);
    }
    this.recorder.forgetAll();
    this.#tensors = null;
    this.#capacity = 0;
  }
}
