/** Arrays with one entry for each trained token of an optimiser step, over all of its micro-batches. */

import { type Allocator, type Tensor, view } from "../../kernels/tensor.ts";
import type { Recorder } from "../../kernels/recorder.ts";
import { roundUp } from "../../kernels/shape.ts";
import type { TrainingSample } from "../protocol/protocol.ts";
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

/** The arrays of a step with R targets, `[R] f32` unless noted. */
export type StepViews = Record<FloatName, Tensor> & {
  /** `[R] u32`: the ids of the trained tokens. */
  targets: Tensor;
  /** `[R, 2]`, see tokenLogprobs. */
  logsumexp: Tensor;
  /** `[4, R]`, see policyLoss. */
  results: Tensor;
};

/** The capacity is a multiple of this many targets, so that it rarely grows. */
const CAPACITY_STEP = 1024;

/** The buffers of the arrays. They grow with the largest step so far. */
export class StepArrays {
  #scope: Allocator | null = null;
  #tensors: StepViews | null = null;

  constructor(readonly allocator: Allocator, readonly recorder: Recorder) {}

  /** Uploads the values of all targets, in the order of the micro-batches, and returns the views. */
  prepare(batches: readonly MicroBatch[], samples: readonly TrainingSample[]): StepViews {
    const targets = batches.flatMap((batch) => batch.targets);
    const out = this.reserve(targets.length);
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

  /** Allocates for up to this many targets, and returns the views of a step with exactly this many. */
  reserve(targets: number): StepViews {
    const count = Math.max(1, targets);
    if (!this.#tensors || this.#tensors.logprob.shape[0]! < count) {
      this.#scope?.destroy();
      this.#tensors = null;
      this.recorder.forgetAll();
      this.#scope = this.allocator.scope();
      this.#tensors = createArrays(this.#scope, roundUp(count, CAPACITY_STEP));
    }
    const { logsumexp, results, ...arrays } = this.#tensors;
    const views = Object.entries(arrays).map(([name, tensor]) => [name, view(tensor, [count])]);
    return {
      ...Object.fromEntries(views),
      logsumexp: view(logsumexp, [count, 2]),
      results: view(results, [4, count]),
    };
  }
}

function createArrays(allocator: Allocator, capacity: number): StepViews {
  const create = (...shape: number[]) => allocator.create("loss", shape);
  const floats = Object.fromEntries(NAMES.map((name) => [name, create(capacity)])) as Record<
    FloatName,
    Tensor
  >;
  const targets = allocator.create("loss", [capacity], "u32");
  return { ...floats, targets, logsumexp: create(capacity, 2), results: create(4, capacity) };
}
