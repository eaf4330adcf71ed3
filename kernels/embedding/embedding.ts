/** Rows of a frozen table by token id. Formulas stand in the shaders. */

import { defineKernel, type Kernel } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectMultiple, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, kernelFamily, wrappedGrid } from "../variant.ts";
import { expectWeight, type Weight, weightOperands, weightParts } from "../weights/weight.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";
import embeddingWgsl from "./embedding.wgsl" with { type: "text" };

const THREADS = 64;

const embeddingKernel = kernelFamily((type: WeightTypeName): Kernel => {
  const { planes, wgsl } = WEIGHT_TYPES[type];
  return defineKernel({
    name: `embedding_${type}`,
    wgsl: [
      constantsPart({ threads: THREADS, first: 1 + planes.length }),
      wgsl,
      { file: "embedding.wgsl", text: embeddingWgsl },
    ],
    params: { rows: "u32", items: "u32", first: "u32", count: "u32", scale: "f32" },
    inputs: [...planes.map(({ name }) => name), "ids"],
    outputs: ["x"],
  }) as Kernel;
});

/**
 * Records `x[n] = scale · table[ids[n]]`; a table of any type is widened to f32 on the way. A dispatch for each part.
 *
 * @param tensors ids `[N] u32`, each below V (the caller's promise); table `[V, C]`; x `[N, C] f32`, overwritten.
 * @throws {ShapeError} When the shapes do not belong together, or C is no multiple of 4.
 */
export function embedding(
  recorder: Recorder,
  tensors: { ids: Tensor; table: Weight; x: Tensor },
  scale = 1,
): void {
  const { ids, table, x } = tensors;
  const [rows] = expectShape(ids, "ids", 1);
  const [, width] = expectWeight(table, "table");
  expectShape(x, "x", [rows, width]);
  expectMultiple(width, 4, "columns of table");
  const items = width / 4;
  for (const { first_row, part } of weightParts(table)) {
    recorder.dispatch(
      embeddingKernel(table.type),
      { rows, items, first: first_row, count: part.shape[0], scale },
      { ...weightOperands(part), ids, x },
      wrappedGrid(ceilDiv(rows * items, THREADS)),
    );
  }
}
