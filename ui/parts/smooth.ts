/** Values as a chart draws them. */

/**
 * The exponential moving average without the bias of its start: `s = w s + (1 - w) v`, divided by `1 - w^n` after n
 * values. Null values are left out and stay null.
 *
 * @param weight The weight of the past, 0 (none) to below 1.
 */
export function smoothed(values: readonly (number | null)[], weight: number): (number | null)[] {
  let sum = 0, scale = 1;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    scale *= weight;
    return sum / (1 - scale);
  });
}

/** Values that have a logarithm; the others are null. */
export function positive(values: readonly (number | null)[]): (number | null)[] {
  return values.map((value) => value !== null && value > 0 ? value : null);
}

/** The sums of each column and those before it, place by place; a value that is null counts as 0. */
export function stacked(columns: readonly (readonly (number | null)[])[]): number[][] {
  let below: readonly number[] = [];
  return columns.map((column) => {
    const sums = column.map((value, i) => (below[i] ?? 0) + (value ?? 0));
    below = sums;
    return sums;
  });
}
