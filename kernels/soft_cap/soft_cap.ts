/** The soft cap of scores and logits: a part for shaders, and a kernel. The formula is in the shader. */

import { assert } from "../../core/errors.ts";
import { defineKernel, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import cappedWgsl from "./capped.wgsl" with { type: "text" };
import inPlaceWgsl from "./soft_cap_in_place.wgsl" with { type: "text" };
import uncappedWgsl from "./uncapped.wgsl" with { type: "text" };

const THREADS = 64;

/** The WGSL that defines `soft_cap` and `soft_cap_gradient` for linked items; 0 means no cap. */
export function softCapParts(cap: number): WgslPart[] {
  assert(Number.isFinite(cap) && cap >= 0, `a soft cap above 0, or 0 for none, not ${cap}`);
  if (cap === 0) return [{ file: "uncapped.wgsl", text: uncappedWgsl }];
  return [constantsPart({ cap: { f32: cap } }), { file: "capped.wgsl", text: cappedWgsl }];
}

const kernel = kernelFamily((size: ItemSize, cap: number) =>
  defineKernel({
    name: "soft_cap",
    wgsl: [
      constantsPart({ threads: THREADS }),
      itemPart(size),
      ...softCapParts(cap),
      { file: "soft_cap_in_place.wgsl", text: inPlaceWgsl },
    ],
    params: { items: "u32" },
    inputs: [],
    outputs: ["x"],
  })
);

/**
 * Records `x ← cap · tanh(x / cap)`. The gradient is computed where x is used, from the capped numbers.
 *
 * @param tensors x `[N, V] f32`.
 * @param cap Above 0.
 * @throws {ShapeError} When x has another shape.
 * @source Gemma Team, "Gemma 2" (2024), section 2.
 */
export function softCap(recorder: Recorder, tensors: { x: Tensor }, cap: number): void {
  const [rows, width] = expectShape(tensors.x, "x", 2);
  assert(cap > 0, `a soft cap above 0, not ${cap}`);
  const size = itemSize(width), items = rows * width / size;
  recorder.dispatch(kernel(size, cap), { items }, tensors, wrappedGrid(ceilDiv(items, THREADS)));
}
