/** The gated activation of the feed-forward block, forward and backward. The formulas are in the shaders. */

import { defineKernel, type Operands, type WgslPart } from "../kernel.ts";
import type { Recorder } from "../recorder.ts";
import { ceilDiv, expectShape } from "../shape.ts";
import type { Tensor } from "../tensor.ts";
import { constantsPart, itemPart, type ItemSize, itemSize, kernelFamily, wrappedGrid } from "../variant.ts";
import backwardWgsl from "./gated_activation_backward.wgsl" with { type: "text" };
import forwardWgsl from "./gated_activation_forward.wgsl" with { type: "text" };
import geluTanhWgsl from "./gelu_tanh.wgsl" with { type: "text" };
import siluWgsl from "./silu.wgsl" with { type: "text" };

const THREADS = 64;

/** The gate's function: `silu(z) = z / (1 + exp(−z))`, or GELU in its approximation by tanh. */
export type Activation = "silu" | "gelu_tanh";

const ACTIVATIONS: Readonly<Record<Activation, WgslPart>> = {
  silu: { file: "silu.wgsl", text: siluWgsl },
  gelu_tanh: { file: "gelu_tanh.wgsl", text: geluTanhWgsl },
};

/** The WGSL that defines `activate`. */
export function activationPart(activation: Activation): WgslPart {
  return ACTIVATIONS[activation];
}

/** The parts that both kernels link before their own text. */
function parts(activation: Activation, size: ItemSize): WgslPart[] {
  return [constantsPart({ threads: THREADS }), itemPart(size), activationPart(activation)];
}

const forwardKernel = kernelFamily((activation: Activation, size: ItemSize) =>
  defineKernel({
    name: "gated_activation_forward",
    wgsl: [...parts(activation, size), { file: "gated_activation_forward.wgsl", text: forwardWgsl }],
    params: { items: "u32" },
    inputs: ["gate", "up"],
    outputs: ["h"],
    textures: { gate: 1, up: 1 },
  })
);

const backwardKernel = kernelFamily((activation: Activation, size: ItemSize) =>
  defineKernel({
    name: "gated_activation_backward",
    wgsl: [...parts(activation, size), { file: "gated_activation_backward.wgsl", text: backwardWgsl }],
    params: { items: "u32" },
    inputs: ["gate", "up", "d_h"],
    outputs: ["d_gate", "d_up"],
    textures: { gate: 1, up: 1, d_h: 1 },
  })
);

/** The items of tensors that all have the shape of `gate`. */
function expectItems(tensors: Readonly<Record<string, Tensor>>): { size: ItemSize; items: number } {
  const [rows, width] = expectShape(tensors.gate!, "gate", 2);
  for (const [name, tensor] of Object.entries(tensors)) expectShape(tensor, name, [rows, width]);
  const size = itemSize(width);
  return { size, items: rows * width / size };
}

/**
 * Records `h = activation(gate) · up`.
 *
 * @param tensors gate, up, h `[N, F] f32`.
 * @throws {ShapeError} When the shapes differ.
 * @source Shazeer, "GLU Variants Improve Transformer" (2020), equation 5.
 */
export function gatedActivation(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof forwardKernel>>,
  activation: Activation,
): void {
  const { size, items } = expectItems(tensors);
  recorder.dispatch(
    forwardKernel(activation, size),
    { items },
    tensors,
    wrappedGrid(ceilDiv(items, THREADS)),
  );
}

/**
 * Records the gradients of {@link gatedActivation} with respect to both inputs; overwrites both.
 *
 * @param tensors gate, up, d_h, d_gate, d_up `[N, F] f32`.
 * @throws {ShapeError} When the shapes differ.
 */
export function gatedActivationBackward(
  recorder: Recorder,
  tensors: Operands<ReturnType<typeof backwardKernel>>,
  activation: Activation,
): void {
  const { size, items } = expectItems(tensors);
  recorder.dispatch(
    backwardKernel(activation, size),
    { items },
    tensors,
    wrappedGrid(ceilDiv(items, THREADS)),
  );
}
