/** The f64 reference of the soft cap, written for clarity. */

export function softCapReference(x: Float64Array, cap: number): Float64Array {
  return x.map((value) => cap * Math.tanh(value / cap));
}
