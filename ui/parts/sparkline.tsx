/** A small line without axes. */

const WIDTH = 96, HEIGHT = 24, MARGIN = 2;

/** The points of a line through values, oldest first, as an SVG path; a dash for a single one. */
export function sparklinePath(values: readonly number[]): string {
  if (values.length === 0) return "";
  if (values.length === 1) return `M${WIDTH / 2 - MARGIN} ${HEIGHT / 2}h${2 * MARGIN}`;
  const low = Math.min(...values), range = Math.max(...values) - low || 1;
  const x = (i: number) => MARGIN + i * (WIDTH - 2 * MARGIN) / (values.length - 1);
  const y = (value: number) => HEIGHT - MARGIN - (value - low) * (HEIGHT - 2 * MARGIN) / range;
  return values.map((value, i) => `${i === 0 ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("");
}

/** @param label What a reader that does not see it is told. */
export function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  return (
    <svg
      class="sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={label}
    >
      <path d={sparklinePath(values)} />
    </svg>
  );
}
