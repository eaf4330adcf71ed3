/** The f64 reference of matmul. */

export interface MatmulInput {
  rows: number;
  depth: number;
  columns: number;
  orientation: "nt" | "nn";
  x: Float64Array;
  /** The weight's values, whatever its type. */
  w: Float64Array;
  lora?: {
    rank: number;
    stride: number;
    column: number;
    scale: number;
    u: Float64Array;
    matrix: Float64Array;
  };
  residual?: Float64Array;
}

export function matmulReference(input: MatmulInput): Float64Array {
  const { rows, depth, columns, orientation, x, w, lora, residual } = input;
  const y = new Float64Array(rows * columns);
  for (let n = 0; n < rows; n++) {
    for (let c = 0; c < columns; c++) {
      let sum = residual?.[n * columns + c] ?? 0;
      for (let d = 0; d < depth; d++) {
        sum += x[n * depth + d]! * w[orientation === "nt" ? c * depth + d : d * columns + c]!;
      }
      for (let r = 0; lora && r < lora.rank; r++) {
        const m = lora.matrix[orientation === "nt" ? c * lora.rank + r : r * columns + c]!;
        sum += lora.scale * lora.u[n * lora.stride + lora.column + r]! * m;
      }
      y[n * columns + c] = sum;
    }
  }
  return y;
}
