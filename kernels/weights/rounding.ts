/**
 * What the quantisers of K types share. Their scales come from the extremes of each part, without the search for better
 * ones with which ggml's quantisers refine them: the blocks are valid and a little less precise.
 */

/** The nearest integer in a range. */
export const clampRound = (value: number, low: number, high: number) =>
  Math.max(low, Math.min(high, Math.round(value)));

/** `x / by`, 0 for 0 / 0. */
export const quotient = (x: number, by: number) => by === 0 ? 0 : x / by;

/** A half-precision number, rounded up so that what is divided by it stays within its range. */
export function halfAbove(value: number): number {
  const [half] = Float16Array.of(value);
  return half! >= value ? half! : Float16Array.of(value * (1 + 2 ** -10) + 2 ** -24)[0]!;
}
