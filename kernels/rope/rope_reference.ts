/** The f64 twin of rope: the formula, written to be read. Arrays are row-major. */

export interface RopeInput {
  rows: number;
  heads: number;
  width: number;
  base: number;
  positions: ArrayLike<number>;
  x: Float64Array;
}

export function ropeReference({ rows, heads, width, base, positions, x }: RopeInput): Float64Array {
  const y = new Float64Array(x.length), half = width / 2;
  for (let n = 0; n < rows; n++) {
    for (let h = 0; h < heads; h++) {
      const head = (n * heads + h) * width;
      for (let i = 0; i < half; i++) {
        const angle = positions[n]! / base ** (2 * i / width);
        const a = x[head + i]!, b = x[head + i + half]!;
        y[head + i] = a * Math.cos(angle) - b * Math.sin(angle);
        y[head + i + half] = b * Math.cos(angle) + a * Math.sin(angle);
      }
    }
  }
  return y;
}
