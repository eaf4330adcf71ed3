/** Matrix products of activations with a frozen weight, in both orientations, with a low-rank term folded in. */

import type { Gpu } from "../device.ts";
import { defineKernel } from "../kernel.ts";
import { type Recorder, SCRATCH_BYTES } from "../recorder.ts";
import { ceilDiv, elementCount, expectMultiple, expectShape, ShapeError } from "../shape.ts";
import { type Tensor, view } from "../tensor.ts";
import { unroll } from "../unroll.ts";
import { deviceOptions, wrappedGrid } from "../variant.ts";
import {
  expectWeight,
  type Weight,
  weightOperands,
  type WeightPart,
  weightParts,
} from "../weights/weight.ts";
import { WEIGHT_TYPES } from "../weights/table.ts";
import chunksWgsl from "./matmul_chunks.wgsl" with { type: "text" };
import { Addend, hasRest, matmulKernel, readsHalves } from "./matmul_kernel.ts";
import {
  chooseLayout,
  chooseMatrices,
  chunkLength,
  type MatmulLayout,
  partialBytes,
  type ProductSize,
} from "./matmul_layout.ts";
import { groupColumns, groupRows, type MatmulKind, readsPairs, TILE_DEPTH } from "./matmul_text.ts";

/**
 * The low-rank term: `scale · u[:, column … column + R] · mᵀ` (nt, m `[columns, R]`) or `· m` (nn, m `[R, columns]`).
 * u `[N, stride] f32` may hold x·Aᵀ of several matrices side by side; R, stride and column are
 * multiples of 4.
 */
export interface LoraTerm {
  u: Tensor;
  /**
   * u is A itself, `[·, depth] f32`, `column` is its first row, and the kernel multiplies x with its R rows: only in `nt` of the
   * form `lanes`. {@link takesA} says where it pays.
   */
  u_is_a?: boolean;
  column: number;
  matrix: Tensor;
  scale: number;
}

/** How rows of x are normalised before they are multiplied: `rmsNorm`, with its bits. */
export interface RowNorm {
  /** `[depth] f32` */
  gamma: Tensor;
  /** Added to the mean square, above 0. */
  eps: number;
}

/** The tensors of {@link matmul}. */
export interface MatmulOperands {
  /** `[N, depth] f32` */
  x: Tensor;
  /** Only where {@link takesNorm}. */
  norm?: RowNorm | undefined;
  /** `[columns, depth]` in `nt`, `[depth, columns]` in `nn`. */
  weight: Weight;
  /** `[N, columns] f32` */
  y: Tensor;
  lora?: LoraTerm | undefined;
  /** `[N, columns] f32`, added to the product; another buffer than y. */
  residual?: Tensor | undefined;
  /**
   * `[N] f32`, powers of two: rows of x and of the low-rank term's u are multiplied by them before they are rounded to f16, and
   * those of the product divided. `rowScales` computes them. Only where `takesMatrices`, and without a residual.
   */
  row_scales?: Tensor | undefined;
}

export interface MatmulOptions {
  /** f16: operands are rounded to f16 before they are multiplied; sums are f32. */
  compute: "f32" | "f16";
  /** Adds to what y holds. */
  accumulate?: boolean;
  /** Overrides the layout that the device would get, for tests and benches. */
  layout?: MatmulLayout;
}

/** The highest rank for which products multiply with A, because each has a register of its own in the text. */
const MOST_A_RANK = 16;
/** Multiplications with A, of all products of an input, that take as long as a dispatch of their own and a copy of u. */
const MOST_A_PRODUCTS = 2 ** 21;
/** Fewer rows take as long as so many. */
const LEAST_A_ROWS = 4;
/** Squares that all workgroups of a product add up together in about the time of a dispatch, calculated for two processors. */
const MOST_NORM_SQUARES = 2 ** 17;
/** The other operands of a product with two weights that normalises x: x, gamma, u, the matrices of two terms, and two outputs. */
const BESIDES_WEIGHTS = 7;

/** Sums of chunks that a thread loads without waiting for one after the other. */
export const CHUNKS_BATCH = 8;
/** Threads of a workgroup that adds sums of chunks. */
const CHUNKS_THREADS = 64;

const chunksKernel = defineKernel({
  name: "matmul_chunks",
  wgsl: unroll(chunksWgsl, { BATCH: CHUNKS_BATCH }),
  params: { count: "u32", chunks: "u32", addend: "u32" },
  inputs: ["partials", "residual"],
  outputs: ["y"],
});

/**
 * Records `y = x · Wᵀ` (`nt`) or `y = x · W` (`nn`), plus the low-rank term, plus the residual.
 * Every output sums along the depth in order, in f32: on a GPU in the chunks of {@link chunkLength}, whose sums are added
 * in order. A small product gives each chunk workgroups of its own and adds their sums in a second dispatch.
 *
 * A weight in parts takes a dispatch for each of them and gives the same bits as one in a single part. In `nn` the last
 * bits may differ where the depth has several chunks, because a part ends a chunk, and with `accumulate`, because the first
 * part is added to y before the others.
 *
 * @throws {ShapeError} When shapes do not belong together, or the depth or the columns are no multiple of 4.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { openGpu } from "../device.ts";
 * import { Recorder } from "../recorder.ts";
 * import { Allocator } from "../tensor.ts";
 * import { createWeight, writeWeight } from "../weights/weight.ts";
 *
 * const gpu = await openGpu({ device: "auto", webgpu: "auto" }).catch((error) => {
 *   console.log(`skipped: ${error.message}`);
 * });
 * if (gpu) {
 *   const allocator = new Allocator(gpu.device), recorder = new Recorder(gpu);
 *   const x = allocator.create("example", [1, 4]), y = allocator.create("example", [1, 4]);
 *   const weight = createWeight(allocator, "example", { type: "f32", shape: [4, 4] });
 *   // Twice the identity.
 *   const values = Float32Array.from({ length: 16 }, (_, i) => i % 5 === 0 ? 2 : 0);
 *   writeWeight(allocator, weight, new Uint8Array(values.buffer));
 *   allocator.write(x, Float32Array.of(1, 2, 3, 4));
 *   matmul(recorder, "nt", { x, weight, y }, { compute: "f32" });
 *   const [bytes] = await recorder.submitAndRead([y]);
 *   assert.deepEqual([...new Float32Array(bytes!)], [2, 4, 6, 8]);
 *   gpu.device.destroy();
 * }
 * ```
 */
export function matmul(
  recorder: Recorder,
  orientation: "nt" | "nn",
  operands: MatmulOperands,
  options: MatmulOptions,
): void {
  const { x, norm, weight, y, lora, residual, row_scales } = operands;
  const [rows, depth] = expectShape(x, "x", 2);
  const [weightRows, weightColumns] = expectWeight(weight, "weight");
  const columns = orientation === "nt" ? weightRows : weightColumns;
  expectShape(weight, "weight", orientation === "nt" ? [columns, depth] : [depth, columns]);
  expectShape(y, "y", [rows, columns]);
  expectMultiple(depth, 4, "depth");
  expectMultiple(columns, 4, "columns");
  if (residual) expectShape(residual, "residual", [rows, columns]);
  const rank = lora ? expectLora(lora, { orientation, rows, columns, depth }) : 0;
  const size = { rows, columns, depth, has_lora: rank > 0 };
  const kind = { weight: weight.type, orientation, compute: options.compute };
  const layout = options.layout ?? chooseMatrices(recorder.gpu, options.compute, size) ??
    chooseLayout(recorder.gpu, size, { reads_pairs: readsPairs(kind), kind });
  if (lora?.u_is_a) expectLanes(layout, orientation);
  if (norm) expectNorm(norm, { layout, orientation, depth });
  if (row_scales) expectScales(row_scales, { layout, rows, residual });
  const addend = (residual ? Addend.RESIDUAL : 0) | (options.accumulate ? Addend.Y : 0);
  const { parts, chunks, is_whole } = cutProduct(orientation, { weight, layout, size, rank });
  const is_split = layout.form !== "lanes" && layout.split && !is_whole &&
    partialBytes(size, chunks) <= SCRATCH_BYTES;
  for (const part of parts) {
    const { shape } = part.weight, { is_last } = part;
    const matrix = !lora || parts.length === 1 || orientation === "nn"
      ? lora?.matrix
      : view(lora.matrix, [shape[0], rank], part.first_row * rank);
    // In nt a part has columns of y to itself. In nn it has a stretch of the depth, and sums go on from part to part.
    const own = orientation === "nt"
      ? { columns: shape[0], depth, rank, x_column: 0, y_column: part.first_row, continued: 0, addend }
      : {
        ...{ columns, depth: shape[0], rank: is_last ? rank : 0, x_column: part.first_row },
        y_column: is_split ? part.first_chunk * rows * columns : 0,
        ...laterPart(part, { is_whole, addend }),
      };
    recorder.dispatch(
      matmulKernel(kind, layout, {
        ...{ has_lora: own.rank > 0, addend: own.addend, continued: own.continued === 1, twin: null },
        a_rank: lora?.u_is_a ? own.rank : 0,
        reads_halves: readsHalves(recorder.gpu, layout, part.weight),
        ...{ has_rest: hasRest(layout, own.depth), norm_eps: norm?.eps ?? null },
        ...{ is_scaled: row_scales !== undefined },
      }),
      {
        ...{ rows, ...own, ...(is_split && { addend: 0 }), x_stride: depth, y_stride: columns },
        ...{ u_stride: lora?.u.shape[1] ?? 0, u_column: lora?.column ?? 0, lora_scale: lora?.scale ?? 0 },
        ...{ chunk_tiles: chunkTiles(layout, size), walked: is_split ? 1 : part.chunks },
      },
      {
        ...{ ...weightOperands(part.weight), ...(norm && { gamma: norm.gamma }), x },
        u: lora?.u ?? recorder.empty,
        lora: matrix ?? recorder.empty,
        ...(row_scales ? { row_scales } : { residual: !is_split && residual ? residual : recorder.empty }),
        y: is_split ? recorder.scratch : y,
      },
      [...grid(layout, rows, own.columns), is_split ? part.chunks : 1],
    );
  }
  if (is_split) addChunks(recorder, { chunks, addend }, { residual, y });
}

/** Records y as the sums of chunks in the scratch tensor, added in order. */
function addChunks(
  recorder: Recorder,
  params: { chunks: number; addend: number },
  { residual = recorder.empty, y }: Pick<MatmulOperands, "residual" | "y">,
): void {
  const count = elementCount(y.shape), grid = wrappedGrid(ceilDiv(count, CHUNKS_THREADS));
  recorder.dispatch(chunksKernel, { count, ...params }, { partials: recorder.scratch, residual, y }, grid);
}

/** A part of a weight, with the chunks that it has: of the depth, and one for the low-rank term. */
interface CutPart {
  weight: WeightPart;
  first_row: number;
  is_first: boolean;
  is_last: boolean;
  first_chunk: number;
  chunks: number;
}

/**
 * Cuts the depth of a weight's parts into chunks. In nt all parts have all chunks, in nn they have them in turn. On a GPU the
 * low-rank term is one more chunk after the last.
 */
function cutProduct(
  orientation: MatmulKind["orientation"],
  { weight, layout, size, rank }: { weight: Weight; layout: MatmulLayout; size: ProductSize; rank: number },
): { parts: CutPart[]; chunks: number; is_whole: boolean } {
  const has_chunks = layout.form !== "lanes", length = has_chunks ? chunkLength(size) : size.depth;
  const placed = weightParts(weight), lora = has_chunks && rank > 0 ? 1 : 0;
  let first_chunk = 0;
  const parts = placed.map(({ first_row, part }, i) => {
    const is_first = i === 0, is_last = i === placed.length - 1, at = first_chunk;
    const own = ceilDiv(orientation === "nt" ? size.depth : part.shape[0], length);
    const chunks = own + (orientation === "nt" || is_last ? lora : 0);
    if (orientation === "nn") first_chunk += chunks;
    return { weight: part, first_row, is_first, is_last, chunks, first_chunk: at };
  });
  const chunks = orientation === "nn" ? first_chunk : parts[0]!.chunks;
  return { parts, chunks, is_whole: length >= size.depth };
}

/** Tiles of a chunk; all of them where the depth is one chunk. */
function chunkTiles(layout: MatmulLayout, size: ProductSize): number {
  return layout.form === "lanes" ? 0 : chunkLength(size) / TILE_DEPTH;
}

/**
 * How a part of nn adds to the others: a later one goes on with the sums of the part before, or is added to y where the
 * depth has several chunks.
 */
function laterPart(
  { is_first, is_last }: CutPart,
  { is_whole, addend }: { is_whole: boolean; addend: number },
): { continued: number; addend: number } {
  const own = (is_first ? addend & Addend.Y : 0) | (is_last ? addend & Addend.RESIDUAL : 0);
  if (is_first || is_whole) return { continued: is_first ? 0 : 1, addend: own };
  return { continued: 0, addend: own | Addend.Y };
}

/** @throws {ShapeError} For a form that knows neither A nor a second weight. */
export function expectLanes(layout: MatmulLayout, orientation: "nt" | "nn"): void {
  if (layout.form === "lanes" && orientation === "nt") return;
  throw new ShapeError("Cannot take A or two weights in a product: expected nt on a software adapter");
}

/** @throws {ShapeError} For a form that does not normalise x, or a gamma of another width. */
export function expectNorm(
  { gamma }: RowNorm,
  { layout, orientation, depth }: { layout: MatmulLayout; orientation: "nt" | "nn"; depth: number },
): void {
  expectShape(gamma, "gamma", [depth]);
  if (isForFew(layout) && orientation === "nt") return;
  throw new ShapeError("Cannot normalise x in a product: expected nt of few rows on a software adapter");
}

/** @throws {ShapeError} For a form without scales, a residual, or scales of other rows. */
function expectScales(
  row_scales: Tensor,
  { layout, rows, residual }: { layout: MatmulLayout; rows: number; residual: Tensor | undefined },
): void {
  expectShape(row_scales, "row_scales", [rows]);
  if (layout.form === "matrices" && !residual) return;
  throw new ShapeError("Cannot scale rows: expected matrices of subgroups, and no residual");
}

/** @returns The rank. @throws {ShapeError} When a term does not belong to y. */
export function expectLora(
  { u, u_is_a, matrix, column }: LoraTerm,
  { orientation, rows, columns, depth }: ProductSize & { orientation: "nt" | "nn" },
): number {
  const [uRows, stride] = expectShape(u, "u", 2);
  const rank = matrix.shape[orientation === "nt" ? 1 : 0]!;
  expectShape(matrix, "lora", orientation === "nt" ? [columns, rank] : [rank, columns]);
  if (u_is_a) expectShape(u, "u", [Math.max(uRows, column + rank), depth]);
  else expectShape(u, "u", [Math.max(rows, uRows), stride]);
  for (const [name, value] of Object.entries({ rank, stride, column })) expectMultiple(value, 4, name);
  return rank;
}

/**
 * Whether the products of an input take A instead of x · Aᵀ (`LoraTerm.u_is_a`): on a software adapter, where every workgroup
 * then multiplies its rows with A. For small products that takes less time than a dispatch for x · Aᵀ.
 *
 * @param product Rows and depth of x; columns of all products with a term of this input together; the rank.
 */
export function takesA(
  gpu: Pick<Gpu, "facts" | "subgroup_size">,
  { rows, columns, depth, rank }: Pick<ProductSize, "rows" | "columns" | "depth"> & { rank: number },
): boolean {
  const { form, lanes } = deviceOptions(gpu);
  if (form !== "lanes" || lanes === 1 || rank > MOST_A_RANK) return false;
  // A lane has 4 columns, but in tiles of few columns.
  const workgroups = ceilDiv(columns, 4 * lanes);
  return Math.max(rows, LEAST_A_ROWS) * rank * depth * workgroups <= MOST_A_PRODUCTS;
}

/**
 * Whether products of x with a weight `[columns, depth]` normalise x, with one weight or two: on a software adapter, those of few
 * rows. Each workgroup normalises its rows, so a product of many columns takes longer with that than with a dispatch.
 */
export function takesNorm(
  gpu: Pick<Gpu, "facts" | "subgroup_size" | "layouts">,
  rows: number,
  { type, shape: [columns, depth] }: Weight,
): boolean {
  const { form, lanes } = deviceOptions(gpu);
  if (form !== "lanes" || rows * depth * ceilDiv(columns, 4 * lanes) > MOST_NORM_SQUARES) return false;
  const kind = { orientation: "nt", weight: type } as const;
  const bound = 2 * WEIGHT_TYPES[type].planes.length + BESIDES_WEIGHTS;
  return bound <= gpu.facts.limits.maxStorageBuffersPerShaderStage! &&
    isForFew(chooseLayout(gpu, { rows, columns, depth }, { reads_pairs: readsPairs(kind) }));
}

/** Whether it is the form for few rows. */
function isForFew(layout: MatmulLayout): boolean {
  return layout.form === "lanes" && layout.owns === "columns";
}

/** The workgroups of a dispatch. */
export function grid(layout: MatmulLayout, rows: number, columns: number): [number, number] {
  return layout.form === "lanes"
    ? [ceilDiv(rows, groupRows(layout)), ceilDiv(columns, groupColumns(layout))]
    : [ceilDiv(rows, layout.block_rows), ceilDiv(columns, layout.block_columns)];
}
