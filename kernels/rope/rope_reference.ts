/** The f64 reference of rope, written for clarity. Arrays are row-major. */

export interface RopeInput {
  rows: number;
  heads: number;
  width: number;
  base: number;
  pairing: "half" | "adjacent";
  /** Divisors of the frequencies. */
  factors?: number[];
  positions: ArrayLike<number>;
  x: Float64Array;
}

export function ropeReference(input: RopeInput): Float64Array {
  const { rows, heads, width, base, pairing, factors, positions, x } = input;
  const y = new Float64Array(x.length), half = width / 2;
  for (let n = 0; n < rows; n++) {
    for (let h = 0; h < heads; h++) {
      const head = (n * heads + h) * width;
      for (let i = 0; i < half; i++) {
        const angle = positions[n]! / base ** (2 * i / width) / (factors?.[i] ?? 1);
        const [low, high] = pairing === "half"
          ? [head + i, head + i + half]
          : [head + 2 * i, head + 2 * i + 1];
        const a = x[low]!, b = x[high]!;
        y[low] = a * Math.cos(angle) - b * Math.sin(angle);
        y[high] = b * Math.cos(angle) + a * Math.sin(angle);
      }
    }
  }
  return y;
}
