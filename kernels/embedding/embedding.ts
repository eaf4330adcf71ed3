/** Rows of a frozen table by token id. Formulas stand in the shaders. */

import { defineKernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import { expectWeight, type Weight } from "../weight.ts";
import f16Wgsl from "./embedding_f16.wgsl" with { type: "text" };
import f32Wgsl from "./embedding_f32.wgsl" with { type: "text" };
import q8Wgsl from "./embedding_q8_0.wgsl" with { type: "text" };

const THREADS = 64;
const constants = constantsPart({ threads: THREADS });
const params = { rows: "u32", items: "u32" } as const;

const f32Kernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "embedding_f32",
    wgsl: [constants, itemPart(size), { file: "embedding_f32.wgsl", text: f32Wgsl }],
    params,
    inputs: ["ids", "values"],
    outputs: ["x"],
  })
);

const f16Kernel = defineKernel({
  name: "embedding_f16",
  wgsl: [constants, { file: "embedding_f16.wgsl", text: f16Wgsl }],
  params,
  inputs: ["ids", "values"],
  outputs: ["x"],
});

const q8Kernel = defineKernel({
  name: "embedding_q8_0",
  wgsl: [constants, { file: "embedding_q8_0.wgsl", text: q8Wgsl }],
  params,
  inputs: ["ids", "values", "scales"],
  outputs: ["x"],
});

/**
 * Records `x[n] = table[ids[n]]`; a Q8_0 table is dequantised on the way.
 *
 * @param tensors ids `[N] u32`, each below V (the caller's promise); table `[V, C]`; x `[N, C] f32`, overwritten.
 * @throws {ShapeError} When the shapes do not belong together or the table's columns do not fill whole words.
 */
export function embedding(recorder: Recorder, tensors: { ids: Tensor; table: Weight; x: Tensor }): void {
  const { ids, table, x } = tensors;
  const [rows] = expectShape(ids, "ids", 1);
  const [, width] = expectWeight(table, "table");
  expectShape(x, "x", [rows, width]);
  const values = table.values;
  const size = table.type === "f32" ? itemSize(width) : table.type === "f16" ? 2 : 4;
  const items = width / size, grid = wrappedGrid(ceilDiv(rows * items, THREADS));
  if (table.type === "q8_0") {
    recorder.dispatch(q8Kernel, { rows, items }, { ids, values, scales: table.scales, x }, grid);
  } else {
    const kernel = size === 2 ? f16Kernel : f32Kernel(size);
    recorder.dispatch(kernel, { rows, items }, { ids, values, x }, grid);
  }
}
