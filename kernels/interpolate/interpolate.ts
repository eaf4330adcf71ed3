/** Moves a tensor along the line from another one. The formula is in the shader. */

import { assert } from "../../core/errors.ts";
import { defineKernel, type Operands } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, elementCount, expectShape } from "../shape.ts";
import { constantsPart, itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import interpolateWgsl from "./interpolate.wgsl" with { type: "text" };

const THREADS = 64;

const interpolateKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "interpolate",
    wgsl: [constantsPart({ threads: THREADS }), itemPart(size), {
      file: "interpolate.wgsl",
      text: interpolateWgsl,
    }],
    params: { items: "u32", scale: "f32" },
    inputs: ["origin"],
    outputs: ["x"],
  })
);

/**
 * Records `x = origin + scale · (x − origin)`: 1 keeps x up to rounding, 0 makes it a copy of `origin`.
 *
 * @param tensors origin, x `[n] f32`, two buffers.
 * @param scale From 0 to 1.
 * @throws {ShapeError} When the shapes differ.
 */
export function interpolate(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof interpolateKernel>>,
  scale: number,
): void {
  assert(scale >= 0 && scale <= 1, `a point between two tensors at ${scale}`);
  expectShape(tensors.x, "x", tensors.origin.shape);
  const count = elementCount(tensors.x.shape), size = itemSize(count), items = count / size;
  recorder.dispatch(
    interpolateKernel(size),
    { items, scale },
    tensors,
    wrappedGrid(ceilDiv(items, THREADS)),
  );
}
