/**
 * Which layout of a product a device computes fastest, by classes of sizes. All layouts of a device give the same bits,
 * so a table changes times and nothing else.
 */

/** The sizes by which products are classed; see `ProductSize` of `kernels/matmul/`. */
interface Size {
  rows: number;
  columns: number;
  depth: number;
}

/** A layout by its place among those of the device (`everyLayout`), and whether chunks have workgroups of their own. */
export interface LayoutChoice {
  layout: number;
  split: boolean;
}

/** Choices by class. A class that is not there keeps the layout that its grid suggests. */
export type LayoutTable = Readonly<Record<string, LayoutChoice>>;

/** The largest sizes of classes. */
const ROWS = [16, 64, 256, 1024, 4096], WIDTHS = [1024, 4096, 16_384];

/** The widest product that is measured: wider ones have more workgroups or rounds of the same kind. */
const MEASURED_WIDTH = 8192;

/** Fewer columns are those of LoRA's matrices, which have a tile of their own. */
const LEAST_WIDTH = 128;

const upTo = (limits: readonly number[], value: number) => limits.find((limit) => value <= limit);

/** The name of a size's class; null for one that has none. */
export function layoutClass({ rows, columns, depth }: Size): string | null {
  if (columns < LEAST_WIDTH || depth < LEAST_WIDTH) return null;
  const up = [upTo(ROWS, rows), upTo(WIDTHS, columns), upTo(WIDTHS, depth)];
  return up.includes(undefined) ? null : up.join("×");
}

/** The size of each class that is measured: few rows, of which decoding has many steps, first. */
export function classSizes(): Size[] {
  const widths = WIDTHS.map((width) => Math.min(width, MEASURED_WIDTH));
  return ROWS.flatMap((rows) =>
    widths.flatMap((columns) => widths.map((depth): Size => ({ rows, columns, depth })))
  );
}
