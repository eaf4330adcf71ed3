/** Plots a curve in a terminal. */

const WIDTH = 60;
const HEIGHT = 8;

/**
 * Plots values over 1..n as text: `HEIGHT` rows of at most `WIDTH` columns. With more values than columns, a column
 * shows the mean of its values. Values that are not finite leave a gap.
 *
 * @returns Lines joined by newlines, without one at the end; the empty string when nothing is finite.
 */
export function textPlot(title: string, values: readonly number[]): string {
  const columns = bucketMeans(values, WIDTH);
  const finite = columns.filter(Number.isFinite);
  if (finite.length === 0) return "";
  let low = Math.min(...finite), high = Math.max(...finite);
  if (low === high) low -= 0.5, high += 0.5;
  const lines = [title];
  for (let row = HEIGHT - 1; row >= 0; row--) {
    const label = row === HEIGHT - 1 ? high : row === 0 ? low : null;
    const cells = columns.map((value) =>
      Number.isFinite(value) && Math.round((value - low) / (high - low) * (HEIGHT - 1)) === row ? "*" : " "
    );
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
