/** The sum of squares of a tensor in one order: the same bits in every run. The formulas are in the shaders. */

import { assert } from "../../core/errors.ts";
import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectShape, roundUp } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
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

/** The tensors of a sum: x f32 of any shape; partials, at least {@link sumPartials} f32 elements; out `[1] f32`. */
export interface SumTensors {
  x: Tensor;
  partials: Tensor;
  out: Tensor;
}

/** The number of f32 elements of `partials` for a sum of `count` elements. */
export function sumPartials(count: number): number {
  const items = count / itemSize(count);
  return Math.min(MAX_PARTIALS, roundUp(Math.max(1, ceilDiv(items, MIN_ITEMS)), THREADS));
}

/** Records `out = Σ x²`. @throws {ShapeError} When out is not `[1]`. */
export function sumOfSquares(recorder: Recorder, { x, partials, out }: SumTensors): void {
  expectShape(out, "out", [1]);
  const count = elementCount(x.shape), size = itemSize(count), threads = sumPartials(count);
  assert(elementCount(partials.shape) >= threads, `partials of a sum of ${count} hold ${threads} elements`);
  const first = { items: count / size, partials: threads };
  recorder.dispatch(partialsKernel(size), first, { x, partials }, [threads / THREADS]);
  recorder.dispatch(totalKernel, { partials: threads }, { partials, out }, [1]);
}
