/** The sum of squares of tensors in one order: the same bits in every run. The formulas are in the shaders. */

import { assert } from "../../core/errors.ts";
import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectShape, roundUp } from "../shape.ts";
import { type Tensor, view } from "../tensor.ts";
import { itemPart, type ItemSize, itemSize, kernelFamily } from "../variant.ts";
import partialsWgsl from "./sum_partials.wgsl" with { type: "text" };
import totalWgsl from "./sum_total.wgsl" with { type: "text" };

const THREADS = 64;
/** The most partial sums: enough to fill a GPU, few enough for one workgroup to add. */
export const MAX_PARTIALS = 16_384;
/** With fewer items than this, another thread is not worth its partial sum. */
const MIN_ITEMS = 16;

const partialsKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "sum_partials",
    wgsl: [itemPart(size), { file: "sum_partials.wgsl", text: partialsWgsl }],
    params: { items: "u32", partials: "u32" },
    inputs: ["x"],
    outputs: ["partials"],
  })
);

const totalKernel = defineKernel({
  name: "sum_total",
  wgsl: totalWgsl,
  params: { partials: "u32" },
  inputs: ["partials"],
  outputs: ["out"],
});

/** The tensors of a sum: those of x f32 of any shapes; partials, at least {@link sumPartials} f32 elements; out `[1] f32`. */
export interface SumTensors {
  x: readonly Tensor[];
  partials: Tensor;
  out: Tensor;
}

/** The number of f32 elements of `partials` for a sum of tensors of `counts` elements; at most {@link MAX_PARTIALS}. */
export function sumPartials(...counts: readonly number[]): number {
  return threadsOf(counts).reduce((sum, threads) => sum + threads, 0);
}

/** The partial sums of each tensor. */
function threadsOf(counts: readonly number[]): number[] {
  const most = Math.floor(MAX_PARTIALS / counts.length / THREADS) * THREADS;
  assert(most > 0, `a sum of ${counts.length} tensors`);
  return counts.map((count) => {
    const items = count / itemSize(count);
    return Math.min(most, roundUp(Math.max(1, ceilDiv(items, MIN_ITEMS)), THREADS));
  });
}

/** Records `out = Σ x²` over all tensors. @throws {ShapeError} When out is not `[1]`. */
export function sumOfSquares(recorder: Recorder, { x, partials, out }: SumTensors): void {
  expectShape(out, "out", [1]);
  const counts = x.map(({ shape }) => elementCount(shape)), needed = sumPartials(...counts);
  assert(elementCount(partials.shape) >= needed, `partials of a sum of ${counts} hold ${needed} elements`);
  let first = 0;
  for (const [i, threads] of threadsOf(counts).entries()) {
    const count = counts[i]!, size = itemSize(count), own = view(partials, [threads], first);
    const params = { items: count / size, partials: threads };
    recorder.dispatch(partialsKernel(size), params, { x: x[i]!, partials: own }, [threads / THREADS]);
    first += threads;
  }
  recorder.dispatch(totalKernel, { partials: first }, { partials, out }, [1]);
}
