/** The f64 reference of the gated activation, written for clarity. */

import type { Activation } from "./gated_activation.ts";

const ACTIVATIONS: Readonly<Record<Activation, (z: number) => number>> = {
  silu: (z) => z / (1 + Math.exp(-z)),
  gelu_tanh: (z) => z / 2 * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (z + 0.044715 * z ** 3))),
};

export function gatedActivationReference(
  activation: Activation,
  gate: Float64Array,
  up: Float64Array,
): Float64Array {
  return gate.map((g, i) => ACTIVATIONS[activation](g) * up[i]!);
}
