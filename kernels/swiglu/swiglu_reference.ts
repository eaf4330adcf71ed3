/** The f64 reference of swiglu: the formula, written to be read. */

export function swigluReference(gate: Float64Array, up: Float64Array): Float64Array {
  return gate.map((g, i) => g / (1 + Math.exp(-g)) * up[i]!);
}
