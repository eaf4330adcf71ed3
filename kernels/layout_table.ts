/**
 * Which layout of a product a device computes fastest, by classes of kinds and sizes. All layouts of a device give the
 * same bits, so a table changes times and nothing else.
 */

/** The sizes by which products are classed; see `ProductSize` of `kernels/matmul/`. */
interface Size {
  rows: number;
  columns: number;
  depth: number;
}

/** What a GPU computes: a product with one weight, or several of the same rows in one dispatch, with operands of a type. */
export interface ProductKind {
  product: "nt" | "nn" | "segments";
  compute: "f32" | "f16";
}

/** A layout by its place among those of the device (`everyLayout`), and whether chunks have workgroups of their own. */
export interface LayoutChoice {
  layout: number;
  split: boolean;
}

/** Choices by class. A class that is not there keeps the layout that its grid suggests. */
export type LayoutTable = Readonly<Record<string, LayoutChoice>>;

/** A class, and what is measured for it. */
export interface MeasuredClass {
  name: string;
  kind: ProductKind;
  rows: number;
  /** Of each weight: only segments have several. */
  columns: readonly number[];
  depth: number;
}

/** The largest sizes of classes. */
const ROWS = [16, 64, 256, 1024, 4096], WIDTHS = [1024, 4096, 16_384];

/** The widest product that is measured: wider ones have more workgroups or rounds of the same kind. */
const MEASURED_WIDTH = 7168;

/** Fewer columns are those of LoRA's matrices, which have a tile of their own. */
const LEAST_WIDTH = 128;

/** The largest rows of classes of segments. Up to {@link FEWEST_ROWS} other tiles than the smallest have most rows in vain. */
const SEGMENT_ROWS = [32, 64, 128, 256], FEWEST_ROWS = 16;

/** The most columns in all of classes of segments. A has a few besides those of the model's width. */
const SEGMENT_COLUMNS = [1536, 6656, 40_960];

/**
 * The columns and depths of segments that are measured, one for each class: models from 0.5B to 8B have their projections
 * in these. All have two weights, so that a tile is one kernel: q with k and v, gate and up, or one weight and A.
 */
const SEGMENTS: readonly (readonly [columns: readonly number[], depth: number])[] = [
  [[896, 256], 896],
  [[2048, 2048], 1024],
  [[4864, 4864], 896],
  [[1024, 32], 2048],
  [[4096, 2048], 4096],
  [[7168, 7168], 4096],
  [[896, 32], 4864],
  [[4096, 32], 14_336],
];

const upTo = (limits: readonly number[], value: number) => limits.find((limit) => value <= limit);

/** The rows with which the class of segments of so many rows is measured; undefined for one that has none. */
export function segmentRows(rows: number): number | undefined {
  return upTo(SEGMENT_ROWS, rows);
}

/**
 * The name of a size's class; null for one that has none.
 *
 * @param kind What a GPU computes; absent: for a software adapter, whose classes are those of all products.
 */
export function layoutClass({ rows, columns, depth }: Size, kind?: ProductKind): string | null {
  if (columns < LEAST_WIDTH || depth < LEAST_WIDTH) return null;
  const is_segments = kind?.product === "segments";
  if (is_segments && rows <= FEWEST_ROWS) return null;
  const up = is_segments
    ? [segmentRows(rows), upTo(SEGMENT_COLUMNS, columns), upTo(WIDTHS, depth)]
    : [upTo(ROWS, rows), upTo(WIDTHS, columns), upTo(WIDTHS, depth)];
  if (up.includes(undefined)) return null;
  return `${kind ? `${kind.product} ${kind.compute} ` : ""}${up.join("×")}`;
}

/** Products of so many rows, of all widths and depths. */
function productClasses(rows: number, kind?: ProductKind): MeasuredClass[] {
  const widths = WIDTHS.map((width) => Math.min(width, MEASURED_WIDTH));
  return widths.flatMap((columns) =>
    widths.map((depth) => ({
      ...{ name: layoutClass({ rows, columns, depth }, kind)!, rows, columns: [columns], depth },
      kind: kind ?? { product: "nt", compute: "f32" },
    }))
  );
}

/** The classes of a software adapter in the order in which they are measured: few rows first. */
export function softwareClasses(): MeasuredClass[] {
  return ROWS.flatMap((rows) => productClasses(rows));
}

/**
 * The classes of a GPU in the order in which they are measured: segments, in which decoding computes nearly all; then what
 * training computes; then the few rows of what segments do not take.
 *
 * @param forward The type of the operands of forward products. Those of the backward pass are f32.
 */
export function gpuClasses(forward: ProductKind["compute"]): MeasuredClass[] {
  const segments: ProductKind = { product: "segments", compute: forward },
    nt: ProductKind = { product: "nt", compute: forward },
    nn: ProductKind = { product: "nn", compute: "f32" };
  return [
    ...SEGMENT_ROWS.flatMap((rows) =>
      SEGMENTS.map(([columns, depth]) => ({
        ...{ kind: segments, rows, columns, depth },
        name: layoutClass({ rows, columns: columns.reduce((sum, one) => sum + one), depth }, segments)!,
      }))
    ),
    ...[1024, 4096, 256].flatMap((rows) => [...productClasses(rows, nt), ...productClasses(rows, nn)]),
    ...[64, 16].flatMap((rows) => productClasses(rows, nt)),
  ];
}
