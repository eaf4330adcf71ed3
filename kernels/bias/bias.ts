/** Adds a row to every row, in place. The formula is in the shader. */

import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import addBiasWgsl from "./add_bias.wgsl" with { type: "text" };

const THREADS = 64;

const kernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "add_bias",
    wgsl: [constantsPart({ threads: THREADS }), itemPart(size), { file: "add_bias.wgsl", text: addBiasWgsl }],
    params: { count: "u32", row_items: "u32" },
    inputs: ["bias"],
    outputs: ["y"],
  })
);

/**
 * Records `y += bias` for every row. The gradient of y passes through unchanged.
 *
 * @param tensors y `[N, C] f32`, bias `[C] f32`.
 * @throws {ShapeError} When the shapes do not match.
 */
export function addBias(recorder: Recorder, tensors: { y: Tensor; bias: Tensor }): void {
  const [rows, columns] = expectShape(tensors.y, "y", 2);
  expectShape(tensors.bias, "bias", [columns]);
  const size = itemSize(columns), row_items = columns / size, count = rows * row_items;
  recorder.dispatch(kernel(size), { count, row_items }, tensors, wrappedGrid(ceilDiv(count, THREADS)));
}
