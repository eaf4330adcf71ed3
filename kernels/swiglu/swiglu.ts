/** The gated activation of the feed-forward block, forward and backward. Formulas stand in the shaders. */

import { defineKernel, type Operands } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import { constantsPart, itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import backwardWgsl from "./swiglu_backward.wgsl" with { type: "text" };
import forwardWgsl from "./swiglu_forward.wgsl" with { type: "text" };

const THREADS = 64;

const forwardKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "swiglu_forward",
    wgsl: [constantsPart({ threads: THREADS }), itemPart(size), {
      file: "swiglu_forward.wgsl",
      text: forwardWgsl,
    }],
    params: { items: "u32" },
    inputs: ["gate", "up"],
    outputs: ["h"],
  })
);

const backwardKernel = kernelFamily((size: ItemSize) =>
  defineKernel({
    name: "swiglu_backward",
    wgsl: [constantsPart({ threads: THREADS }), itemPart(size), {
      file: "swiglu_backward.wgsl",
      text: backwardWgsl,
    }],
    params: { items: "u32" },
    inputs: ["gate", "up", "d_h"],
    outputs: ["d_gate", "d_up"],
  })
);

/**
 * Records `h = silu(gate) · up` with `silu(z) = z / (1 + exp(−z))`.
 *
 * @param tensors gate, up, h `[N, F] f32`.
 * @throws {ShapeError} When the shapes differ.
 * @source Shazeer, "GLU Variants Improve Transformer" (2020), equation 5.
 */
export function swiglu(recorder: Recorder, tensors: Operands<ReturnType<typeof forwardKernel>>): void {
  const [rows, width] = expectShape(tensors.gate, "gate", 2);
  for (const name of ["up", "h"] as const) expectShape(tensors[name], name, [rows, width]);
  const size = itemSize(width), items = rows * width / size;
  recorder.dispatch(forwardKernel(size), { items }, tensors, wrappedGrid(ceilDiv(items, THREADS)));
}

/**
 * Records the gradients of {@link swiglu} with respect to both inputs; both are overwritten.
 *
 * @param tensors gate, up, d_h, d_gate, d_up `[N, F] f32`.
 * @throws {ShapeError} When the shapes differ.
 */
export function swigluBackward(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof backwardKernel>>,
): void {
  const [rows, width] = expectShape(tensors.gate, "gate", 2);
  for (const name of ["up", "d_h", "d_gate", "d_up"] as const) {
    expectShape(tensors[name], name, [rows, width]);
  }
  const size = itemSize(width), items = rows * width / size;
  recorder.dispatch(backwardKernel(size), { items }, tensors, wrappedGrid(ceilDiv(items, THREADS)));
}
