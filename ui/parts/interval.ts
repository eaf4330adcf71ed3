/** Intervals on one scale, as a share of its width. */

/** A difference with its interval; the ends are null when they are not known. */
export interface Interval {
  difference: number;
  low: number | null;
  high: number | null;
}

/** Room beside the outermost value, as a share of the scale. */
const MARGIN = 0.08;

/** A function from values to shares, 0 to 1, on which zero and all intervals have a place. */
export function scaleOf(intervals: readonly Interval[]): (value: number) => number {
  const values = intervals.flatMap(({ difference, low, high }) => [difference, low ?? 0, high ?? 0]);
  const least = Math.min(0, ...values), most = Math.max(0, ...values), range = most - least;
  if (range === 0) return () => 0.5;
  return (value) => MARGIN + (1 - 2 * MARGIN) * (value - least) / range;
}
