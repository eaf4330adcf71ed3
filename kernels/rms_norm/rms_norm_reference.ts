/** The f64 reference of rms_norm, written for clarity. Arrays are row-major. */

export interface RmsNormInput {
  rows: number;
  width: number;
  eps: number;
  x: Float64Array;
  gamma: Float64Array;
}

export function rmsNormReference({ rows, width, eps, x, gamma }: RmsNormInput) {
  const y = new Float64Array(rows * width), rstd = new Float64Array(rows);
  for (let n = 0; n < rows; n++) {
    const row = x.subarray(n * width, (n + 1) * width);
    rstd[n] = 1 / Math.sqrt(row.reduce((sum, v) => sum + v * v, 0) / width + eps);
    row.forEach((v, c) => y[n * width + c] = v * rstd[n]! * gamma[c]!);
  }
  return { y, rstd };
}
