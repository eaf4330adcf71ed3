/**
 * How a product is cut: into tiles of y, and its depth into chunks. The chunks depend on the weight's shape alone, so
 * neither the tile nor the number of rows changes a bit of a row's result.
 */

import { type Gpu, SUBGROUP_MATRIX } from "../device.ts";
import { SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv, roundUp } from "../shape.ts";
import { layoutClass, type LayoutTable, segmentRows } from "../layout_table.ts";
import { deviceForm, deviceOptions } from "../variant.ts";
import type { MatricesLayout } from "./matmul_matrices.ts";
import { type LanesLayout, type MatmulKind, TILE_DEPTH, type TilesLayout } from "./matmul_text.ts";

/** A form of scalar sums. `split`: each chunk of the depth has workgroups of its own. */
export type ScalarLayout = LanesLayout | TilesLayout & { split: boolean };

/** The form of a product's kernel. */
export type MatmulLayout = ScalarLayout | MatricesLayout;

/** The form of the kernel of several products of the same rows. */
export type SegmentsLayout = TilesLayout | MatricesLayout;

/** The size of y and the number of products that are summed for each of its numbers. */
export interface ProductSize {
  rows: number;
  columns: number;
  depth: number;
  /** Whether there is a low-rank term, which is one more chunk. */
  has_lora?: boolean;
}

/** The multiprocessors of a large GPU, an H100: with fewer workgroups some have no work. A smaller GPU takes them in turn. */
export const MULTIPROCESSORS = 132;

/** Workgroups that a product of few rows gets: about two for each multiprocessor, of which one computes while one waits. */
const WANTED_GROUPS = 256;

/** The most chunks: each one more is a sum to store and to load, and bytes of the scratch tensor. */
const MOST_CHUNKS = 16;

/** The columns of y that a workgroup of few rows computes. Chunks are counted for it. */
const CHUNK_COLUMNS = 64;

/** A chunk's length is a multiple of this: complete tiles, and 128 bytes of a row of halves. */
const CHUNK_STEP = 64;

/** A depth up to this is one chunk: its loop is so short that a second dispatch would take longer than it saves. */
const WHOLE_DEPTH = 256;

/** A tile is not used where it would compute more rows than this factor of those that there are. */
const MOST_PADDING = 1.5;

/** The tiles of GPUs: the largest first, and last the one for the few columns of LoRA's matrices. */
export const TILES = {
  large: { form: "tiles", block_rows: 128, block_columns: 128, thread_rows: 8, thread_columns: 8 },
  middle: { form: "tiles", block_rows: 64, block_columns: 64, thread_rows: 4, thread_columns: 8 },
  small: { form: "tiles", block_rows: 16, block_columns: 64, thread_rows: 4, thread_columns: 4 },
  narrow: { form: "tiles", block_rows: 64, block_columns: 16, thread_rows: 4, thread_columns: 4 },
} as const satisfies Record<string, TilesLayout>;

/** Up to so many columns the narrow tile computes less in vain than the others. */
const NARROW_COLUMNS = 32;

/**
 * The length of a product's chunks: as many as give {@link WANTED_GROUPS} workgroups to a product of few rows. Each chunk
 * is summed in order from zero, and the chunks are added in order; the low-rank term is one more chunk at the end.
 *
 * @returns A multiple of {@link TILE_DEPTH}; at least the depth for a single chunk.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 *
 * // 896 columns are only 14 workgroups: 16 chunks multiply them. A vocabulary has enough by itself.
 * assert.equal(chunkLength({ columns: 896, depth: 4864 }), 320);
 * assert.equal(chunkLength({ columns: 151_936, depth: 896 }), 896);
 * ```
 */
export function chunkLength({ columns, depth }: Pick<ProductSize, "columns" | "depth">): number {
  const wanted = depth <= WHOLE_DEPTH
    ? 1
    : Math.min(MOST_CHUNKS, ceilDiv(WANTED_GROUPS, ceilDiv(columns, CHUNK_COLUMNS)));
  return wanted === 1 ? roundUp(depth, TILE_DEPTH) : roundUp(ceilDiv(depth, wanted), CHUNK_STEP);
}

/**
 * The layout of scalar sums for a device and a product. It is the one that was measured, if any. Otherwise on a GPU it is the
 * largest tile with workgroups enough: by itself, or with workgroups for each chunk. A software adapter sums along the whole
 * depth; docs/decisions/software_kernels.md says why.
 *
 * @param options.reads_pairs Whether it is `nt` and the weight's type has a reader of pairs. Default: no.
 * @param options.kind What a GPU's measured layouts are looked up by. Default: none of them is taken.
 */
export function chooseLayout(
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "layouts" | "wrong_layouts">,
  size: ProductSize,
  options: { reads_pairs?: boolean; kind?: Pick<MatmulKind, "orientation" | "compute"> } = {},
): ScalarLayout {
  const suggested = suggestedLayout(gpu, size, options);
  if (!gpu.layouts) return suggested;
  // A software adapter has the same classes for all kinds.
  const kind = deviceForm(gpu) === "tiles" ? options.kind : undefined;
  const name = layoutClass(size, kind && { product: kind.orientation, compute: kind.compute });
  return measuredLayout(gpu, gpu.layouts, { size, name, suggested }) ?? suggested;
}

/** The layout of a table; null where it has none, or one that would compute too much in vain. */
function measuredLayout(
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "wrong_layouts">,
  table: LayoutTable,
  { size, name, suggested }: { size: ProductSize; name: string | null; suggested: ScalarLayout },
): ScalarLayout | null {
  const choice = name === null ? undefined : table[name];
  const layout = choice && everyLayout(gpu)[choice.layout];
  if (!layout) return null;
  // The form for few rows is for them alone, and they have no class of their own; nor have few columns.
  if (layout.form === "lanes") {
    return suggested.form === "lanes" && suggested.owns === layout.owns ? layout : null;
  }
  const is_padded = layout !== TILES.small &&
    roundUp(size.rows, layout.block_rows) > MOST_PADDING * size.rows;
  const taken = { ...layout, split: choice.split && canSplit(size) };
  return is_padded || !isRight(gpu, taken) ? null : taken;
}

/** Whether the depth has several chunks, whose sums fit the scratch tensor. */
function canSplit(size: ProductSize): boolean {
  const chunks = ceilDiv(size.depth, chunkLength(size));
  return chunks > 1 && partialBytes(size, chunks + (size.has_lora ? 1 : 0)) <= SCRATCH_BYTES;
}

/** The layout by the numbers of workgroups. */
function suggestedLayout(
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "wrong_layouts">,
  size: ProductSize,
  options: { reads_pairs?: boolean },
): ScalarLayout {
  const { form, lanes } = deviceOptions(gpu), { rows, columns } = size;
  if (form === "lanes") return lanesLayout(lanes, { ...size, ...options });
  const chunks = ceilDiv(size.depth, chunkLength(size)), can_split = canSplit(size);
  const { large, middle, small, narrow } = TILES, is_narrow = columns <= NARROW_COLUMNS;
  const fitting = (is_narrow ? [narrow] : [large, middle]).filter(({ block_rows }) =>
    roundUp(rows, block_rows) <= MOST_PADDING * rows
  );
  for (const tile of fitting) {
    const groups = workgroups(tile, rows, columns),
      whole = { ...tile, split: false },
      split = { ...tile, split: true };
    if (groups >= MULTIPROCESSORS && isRight(gpu, whole)) return whole;
    if (can_split && groups * chunks >= MULTIPROCESSORS && isRight(gpu, split)) return split;
  }
  const takes_narrow = is_narrow && fitting.length > 0 && isRight(gpu, { ...narrow, split: false });
  const last = takes_narrow ? narrow : small, split = { ...last, split: true };
  return can_split && workgroups(last, rows, columns) < MULTIPROCESSORS && isRight(gpu, split)
    ? split
    : { ...last, split: false };
}

/** The tiles of matrices: the largest first. */
const MATRICES = [
  { form: "matrices", block_rows: 128, block_columns: 128, across: 2, steps: 16 },
  { form: "matrices", block_rows: 64, block_columns: 64, across: 2, steps: 32 },
  { form: "matrices", block_rows: 16, block_columns: 64, across: 4, steps: 32 },
] as const satisfies readonly Omit<MatricesLayout, "subgroup_size" | "split">[];

/**
 * Whether products with such operands are in the form `matrices`. Its sums have other bits than those of other forms, so this
 * does not depend on sizes: sampler and trainer take it for every product of a weight or for none.
 */
export function takesMatrices({ facts }: Pick<Gpu, "facts">, compute: MatmulKind["compute"]): boolean {
  return !facts.software && compute === "f16" &&
    [SUBGROUP_MATRIX, "shader-f16"].every((feature) => facts.features.includes(feature));
}

/** The layouts in the form `matrices`, the largest first, but for whether they split; none for a device or operands without it. */
export function everyMatrices(
  gpu: Pick<Gpu, "facts" | "subgroup_size">,
  compute: MatmulKind["compute"],
): MatricesLayout[] {
  if (!takesMatrices(gpu, compute)) return [];
  return MATRICES.map((tile) => ({ ...tile, subgroup_size: gpu.subgroup_size, split: false }));
}

/** The layout in the form `matrices`, by the numbers of workgroups; null for a device or operands without it. */
export function chooseMatrices(
  gpu: Pick<Gpu, "facts" | "subgroup_size">,
  compute: MatmulKind["compute"],
  size: ProductSize,
): MatricesLayout | null {
  const layouts = everyMatrices(gpu, compute), last = layouts.at(-1);
  if (!last) return null;
  const { rows, columns } = size, chunks = ceilDiv(size.depth, chunkLength(size)), can_split = canSplit(size);
  for (const tile of layouts) {
    if (tile !== last && roundUp(rows, tile.block_rows) > MOST_PADDING * rows) continue;
    const groups = workgroups(tile, rows, columns);
    if (groups >= MULTIPROCESSORS) return tile;
    if (can_split && (tile === last || groups * chunks >= MULTIPROCESSORS)) {
      return { ...tile, split: true };
    }
  }
  return last;
}

/** Whether no driver's mistake is known of a layout. */
function isRight({ wrong_layouts }: Pick<Gpu, "wrong_layouts">, layout: ScalarLayout): boolean {
  return !wrong_layouts?.includes(layoutName(layout));
}

/** The tiles of scalar sums for segments, the largest first. */
export const SEGMENT_TILES: readonly TilesLayout[] = [TILES.large, TILES.middle, TILES.small];

/**
 * The tile for one dispatch of several products of the same rows, whose chunks all have workgroups of their own. It is the
 * one that was measured, if any. Otherwise it is the largest with workgroups enough, of which those with short chunks count
 * by their part of the longest.
 */
export function chooseSegmentsTile(
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "layouts" | "wrong_layouts">,
  { rows, depth, compute }: Pick<ProductSize, "rows" | "depth"> & Pick<MatmulKind, "compute">,
  columns: readonly number[],
): SegmentsLayout {
  const matrices = everyMatrices(gpu, compute).map((tile) => ({ ...tile, split: true }));
  const size = { rows, columns: columns.reduce((sum, one) => sum + one, 0), depth };
  const name = layoutClass(size, { product: "segments", compute });
  const choice = name === null || matrices.length > 0 ? undefined : gpu.layouts?.[name];
  const measured = choice && SEGMENT_TILES.find((tile) => tile === Object.values(TILES)[choice.layout]);
  // It may compute as much in vain as it did when it was measured, with the most rows of the class.
  const paddingOf = ({ block_rows }: TilesLayout, rows: number) => roundUp(rows, block_rows) / rows;
  if (
    measured && paddingOf(measured, rows) <= Math.max(MOST_PADDING, paddingOf(measured, segmentRows(rows)!))
  ) {
    return measured;
  }
  const tiles = SEGMENT_TILES.filter((tile) =>
    tile === TILES.small || isRight(gpu, { ...tile, split: true })
  );
  const all = matrices.length > 0 ? matrices : tiles, last = all.at(-1)!;
  const lengths = columns.map((columns) => chunkLength({ columns, depth })), longest = Math.max(...lengths);
  const groups = (tile: SegmentsLayout) =>
    columns.reduce((sum, columns, s) => {
      const length = lengths[s]!;
      return sum + workgroups(tile, rows, columns) * ceilDiv(depth, length) * length / longest;
    }, 0);
  return all.find((tile) =>
    roundUp(rows, tile.block_rows) <= MOST_PADDING * rows && groups(tile) >= MULTIPROCESSORS
  ) ?? last;
}

/** Rows of the form for few rows, which takes the next larger number. For more the other forms are as fast. */
const FEW_ROWS = [1, 4];

/** Vectors of a lane's tile, and the time of one of its columns: a wide tile has fewer loads for each. */
const TILE_VECTORS = [{ vectors: 4, time: 1 }, { vectors: 2, time: 1.2 }, { vectors: 1, time: 1.5 }] as const;

function lanesLayout(
  lanes: number,
  { rows, columns, reads_pairs = false }: ProductSize & { reads_pairs?: boolean },
): LanesLayout {
  const shared = { form: "lanes", lanes, tile_vectors: 4 } as const;
  if (lanes === 1) return { ...shared, owns: "rows", tile_rows: rows > 4 ? 8 : 1 };
  const few = FEW_ROWS.find((most) => rows <= most);
  if (few && reads_pairs) return { ...shared, owns: "columns", tile_rows: few };
  // A tile of LoRA's few columns would have most of its columns in vain.
  const timeOf = ({ vectors, time }: typeof TILE_VECTORS[number]) => time * roundUp(columns, lanes * vectors);
  const { vectors } = TILE_VECTORS.toSorted((a, b) => timeOf(a) - timeOf(b))[0]!;
  return { ...shared, owns: "rows", tile_rows: rows > 2 * lanes ? 4 : 1, tile_vectors: vectors };
}

/** The layouts of scalar sums of a device, but for whether they split. */
export function everyLayout(
  gpu: Pick<Gpu, "facts" | "subgroup_size">,
  options: { reads_pairs?: boolean } = {},
): ScalarLayout[] {
  if (deviceForm(gpu) === "tiles") return Object.values(TILES).map((tile) => ({ ...tile, split: false }));
  const rows = options.reads_pairs ? [...FEW_ROWS, 16, 1000] : [16, 1000];
  return rows.map((rows) => suggestedLayout(gpu, { rows, columns: 1000, depth: 4 }, options));
}

/** A layout in words, such as `64 × 16`, the rows and columns of a workgroup. */
export function layoutName(layout: MatmulLayout): string {
  if (layout.form === "lanes") {
    const { lanes, owns, tile_rows } = layout;
    return owns === "rows"
      ? `lanes ${lanes}, ${tile_rows} rows of each`
      : `lanes ${lanes}, ${tile_rows} rows of all`;
  }
  const tile = `${layout.block_rows} × ${layout.block_columns}`;
  return `${tile}${layout.form === "matrices" ? ", matrices of subgroups" : ""}${
    layout.split ? ", split" : ""
  }`;
}

/** Bytes of the sums of so many chunks. */
export function partialBytes(
  { rows, columns }: Pick<ProductSize, "rows" | "columns">,
  chunks: number,
): number {
  return 4 * chunks * rows * columns;
}

function workgroups(
  { block_rows, block_columns }: Pick<TilesLayout, "block_rows" | "block_columns">,
  rows: number,
  columns: number,
): number {
  return ceilDiv(rows, block_rows) * ceilDiv(columns, block_columns);
}
