/** The f64 reference of lora_gradient, written for clarity. Arrays are row-major. */

export interface LoraGradientInput {
  rows: number;
  columns: number;
  rank: number;
  q_stride: number;
  q_offset: number;
  p: Float64Array;
  q: Float64Array;
}

/** `Σ_m p[m, c] · q[m, q_offset + r]` as `[P, R]`. */
export function loraGradientReference(
  { rows, columns, rank, q_stride, q_offset, p, q }: LoraGradientInput,
): Float64Array {
  const out = new Float64Array(columns * rank);
  for (let m = 0; m < rows; m++) {
    for (let c = 0; c < columns; c++) {
      for (let r = 0; r < rank; r++) {
        out[c * rank + r]! += p[m * columns + c]! * q[m * q_stride + q_offset + r]!;
      }
    }
  }
  return out;
}
