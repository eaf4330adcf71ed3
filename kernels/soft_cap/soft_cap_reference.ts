/** The f64 reference of the soft cap: the formula, written to be read. */

export function softCapReference(x: Float64Array, cap: number): Float64Array {
  return x.map((value) => cap * Math.tanh(value / cap));
}
