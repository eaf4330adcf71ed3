/** Plots a curve in a terminal. */

const WIDTH = 60;
const HEIGHT = 8;

/**
 * Plots values over 1..n as text: `HEIGHT` rows of at most `WIDTH` columns, one row if all values are equal. With more
 * values than columns, a column shows the mean of its values. Values that are not finite leave a gap.
 *
 * @returns Lines joined by newlines, without one at the end; the empty string when nothing is finite.
 */
export function textPlot(title: string, values: readonly number[]): string {
  const columns = bucketMeans(values, WIDTH);
  const finite = columns.filter(Number.isFinite);
  if (finite.length === 0) return "";
  const low = Math.min(...finite), high = Math.max(...finite), top = low === high ? 0 : HEIGHT - 1;
  const rowOf = (value: number) => low === high ? 0 : Math.round((value - low) / (high - low) * top);
  const lines = [title];
  for (let row = top; row >= 0; row--) {
    const label = row === top ? high : row === 0 ? low : null;
    const cells = columns.map((value) => Number.isFinite(value) && rowOf(value) === row ? "*" : " ");
    lines.push(`${(label === null ? "" : label.toFixed(3)).padStart(8)} |${cells.join("")}`.trimEnd());
  }
  lines.push(`${" ".repeat(8)} +${"-".repeat(columns.length)}`);
  const last = String(values.length);
  lines.push(`${" ".repeat(10)}1${values.length > 1 ? last.padStart(Math.max(columns.length - 1, 2)) : ""}`);
  return lines.join("\n");
}

function bucketMeans(values: readonly number[], buckets: number): number[] {
  if (values.length <= buckets) return [...values];
  return Array.from({ length: buckets }, (_, i) => {
    const from = Math.floor(i * values.length / buckets), to = Math.floor((i + 1) * values.length / buckets);
    const finite = values.slice(from, to).filter(Number.isFinite);
    return finite.length === 0 ? NaN : finite.reduce((a, b) => a + b, 0) / finite.length;
  });
}
