/** The parts of a matmul's text: what both forms share, and the form's own. */

import { assert } from "../../core/errors.ts";
import { type Activation, activationPart } from "../gated_activation/gated_activation.ts";
import type { WgslPart } from "../kernel.ts";
import { unroll, type UnrollConstants } from "../unroll.ts";
import { constantsPart, itemPart, lanesPart, lanesThreads } from "../variant.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";
import { type ReaderOptions, weightReader, type WeightType } from "../weights/weight_type.ts";
import finishBothWgsl from "./matmul_lanes_finish_both.wgsl" with { type: "text" };
import finishGatedWgsl from "./matmul_lanes_finish_gated.wgsl" with { type: "text" };
import finishOneWgsl from "./matmul_lanes_finish_one.wgsl" with { type: "text" };
import firstWgsl from "./matmul_lanes_first.wgsl" with { type: "text" };
import lanesFewWgsl from "./matmul_lanes_few.wgsl" with { type: "text" };
import lanesNormWgsl from "./matmul_lanes_norm.wgsl" with { type: "text" };
import lanesNnWgsl from "./matmul_lanes_nn.wgsl" with { type: "text" };
import lanesProductsWgsl from "./matmul_lanes_products.wgsl" with { type: "text" };
import lanesNtWgsl from "./matmul_lanes_nt.wgsl" with { type: "text" };
import operandsWgsl from "./matmul_operands.wgsl" with { type: "text" };
import secondWgsl from "./matmul_lanes_second.wgsl" with { type: "text" };
import segmentsWgsl from "./matmul_segments.wgsl" with { type: "text" };
import segmentsTilesWgsl from "./matmul_segments_tiles.wgsl" with { type: "text" };
import stageWgsl from "./matmul_stage.wgsl" with { type: "text" };
import storeWgsl from "./matmul_store.wgsl" with { type: "text" };
import storeScaledWgsl from "./matmul_store_scaled.wgsl" with { type: "text" };
import stepsWgsl from "./matmul_steps.wgsl" with { type: "text" };
import tilesWgsl from "./matmul_tiles.wgsl" with { type: "text" };
import tilesNnWgsl from "./matmul_tiles_nn.wgsl" with { type: "text" };
import tilesNtWgsl from "./matmul_tiles_nt.wgsl" with { type: "text" };
import operandF16Wgsl from "./operand_f16.wgsl" with { type: "text" };
import operandF32Wgsl from "./operand_f32.wgsl" with { type: "text" };

/** The properties of a product on which the text depends. */
export interface MatmulKind {
  weight: WeightTypeName;
  /** `nt`: y = x · Wᵀ. `nn`: y = x · W. */
  orientation: "nt" | "nn";
  /** f16: both operands are rounded to f16, ±65,504 at most, before they are multiplied; sums stay f32. */
  compute: "f32" | "f16";
}

/** How the form `lanes` is laid out over a subgroup. */
export interface LanesLayout {
  form: "lanes";
  /** Invocations that share loads; 1 where the device cannot broadcast. */
  lanes: number;
  /** What a lane has of y: rows of its own; or 4 columns of its own, in all rows of the tile, which only `nt` knows. */
  owns: "rows" | "columns";
  /** Rows that a lane computes. */
  tile_rows: number;
  /**
   * The tile has so many columns for each lane. In `nt` a lane loads as many vectors of the weight per step; in `nn` it loads
   * four rows of a vector, and with fewer than 4 some lanes load what others do.
   */
  tile_vectors: number;
}

/** The tile of a GPU's workgroup and a thread's part of it. All are multiples of 4. */
export interface TilesLayout {
  form: "tiles";
  block_rows: number;
  block_columns: number;
  thread_rows: number;
  thread_columns: number;
}

/** Steps of the depth in a tile of a GPU's form. */
export const TILE_DEPTH = 16;

/** Rows of a workgroup's tile. */
export function groupRows({ lanes, owns, tile_rows }: LanesLayout): number {
  return owns === "columns" ? tile_rows : lanes * tile_rows;
}

/** Columns of all tiles of a workgroup. */
export function groupColumns(layout: LanesLayout): number {
  return lanesThreads(layout.lanes) * layout.tile_vectors;
}

/** Whether a form for pairs of vectors of the weight can compute a product. */
export function readsPairs({ orientation, weight }: Pick<MatmulKind, "orientation" | "weight">): boolean {
  const { pairs_wgsl }: WeightType = WEIGHT_TYPES[weight];
  return orientation === "nt" && pairs_wgsl !== undefined;
}

/**
 * What a product has besides x and the weight. In the form `lanes` it is part of the text: there a branch that is not taken
 * takes as long as one that is.
 */
export interface ProductTerms {
  has_lora: boolean;
  /** The rank where u is A, which the kernel multiplies x with; 0: u is x · Aᵀ, or there is none. */
  a_rank: number;
  /** What is added when y is stored: 1 the residual, 2 y itself, or both. */
  addend: number;
  /** Whether sums start from y. */
  continued: boolean;
  /** Whether the depth ends within a step of all lanes, or a row of the weight between two vectors of a pair. */
  has_rest: boolean;
  /** Whether the weight's values are read from a texture of halves. */
  reads_halves: boolean;
  /** What is added to the mean square of a row of x, which is normalised first; null: it is not. Only for few rows. */
  norm_eps: number | null;
  /**
   * Of a product with two weights: `both` where each has its own y, or the function that the first one's sums go through
   * before they are multiplied with the second one's. Null: there is one weight.
   */
  twin: "both" | Activation | null;
  /** Whether rows of x and u are scaled before they are rounded: only in the form `matrices`. */
  is_scaled: boolean;
}

/** The kernel's parts: the weight's reader, what all forms share, and the form's own text. */
export function matmulParts(
  kind: MatmulKind,
  layout: LanesLayout | TilesLayout,
  terms: ProductTerms,
): WgslPart[] {
  if (layout.form === "tiles") return [...stagedWeightParts(kind), ...tilesParts(kind, layout)];
  const reads_pairs = layout.owns === "columns", { reads_halves, twin, norm_eps } = terms;
  const options = { reads_pairs, reads_halves }, has_second = twin !== null;
  return [
    ...sharedParts(kind, { ...options, has_second, has_norm: norm_eps !== null }),
    weightOperandPart(kind),
    ...has_second ? secondParts(kind, options) : [],
    ...lanesParts(kind, layout, terms),
  ];
}

/**
 * The parts before those of a form.
 *
 * @param options What the form needs of the weight's reader, whether there is a second weight, and whether x is normalised.
 */
function sharedParts(
  kind: MatmulKind,
  { has_second = false, has_norm = false, is_scaled = false, ...options }:
    & ReaderOptions
    & { has_second?: boolean; has_norm?: boolean; is_scaled?: boolean },
): WgslPart[] {
  const planes = WEIGHT_TYPES[kind.weight].planes.length;
  return [
    operandPart(kind.compute),
    ...weightReader(WEIGHT_TYPES[kind.weight], options),
    constantsPart({ first: 1 + planes * (has_second ? 2 : 1) + (has_norm ? 1 : 0) }),
    { file: "matmul_operands.wgsl", text: operandsWgsl },
    ...has_second ? [] : [storePart(is_scaled)],
  ];
}

/** How sums are stored. */
function storePart(is_scaled: boolean): WgslPart {
  return is_scaled
    ? { file: "matmul_store_scaled.wgsl", text: storeScaledWgsl }
    : { file: "matmul_store.wgsl", text: storeWgsl };
}

/**
 * The parts before those of a form that stages the weight: {@link sharedParts} and `weight_at(i)`, as it is staged.
 *
 * @param is_scaled See {@link ProductTerms.is_scaled}.
 */
export function stagedWeightParts(kind: MatmulKind, is_scaled = false): WgslPart[] {
  const loads_f16 = loadsF16(kind);
  return [...sharedParts(kind, { loads_f16, is_scaled }), weightAtPart("", loads_f16)];
}

/** Whether the weight lies in f16 and is staged so. */
function loadsF16({ weight, compute }: Pick<MatmulKind, "weight" | "compute">): boolean {
  const { f16_wgsl }: WeightType = WEIGHT_TYPES[weight];
  return compute === "f16" && f16_wgsl !== undefined;
}

/** Defines `weight_at<suffix>(i)`, four numbers as they are staged. A suffix is that of one weight of several. */
function weightAtPart(suffix: string, loads_f16: boolean): WgslPart {
  const value = loads_f16 ? `load_f16${suffix}(i)` : `to_operand(load_weight${suffix}(i))`;
  return {
    file: "weight_at.wgsl",
    text: `fn weight_at${suffix}(i: u32) -> operand4 { return ${value}; }\n`,
  };
}

/** Defines `operand` and `to_operand`: what is multiplied, in the type of operands. It comes before all other parts. */
export function operandPart(compute: MatmulKind["compute"]): WgslPart {
  return compute === "f16"
    ? { file: "operand_f16.wgsl", text: operandF16Wgsl }
    : { file: "operand_f32.wgsl", text: operandF32Wgsl };
}

/** How a product in the form `lanes` takes a weight: as any operand, but what is stored as f16 needs no rounding. */
function weightOperandPart({ weight, compute }: MatmulKind): WgslPart {
  const taken = compute === "f16" && weight === "f16" ? "v" : "operand(v)";
  const text = `fn weight_operand(v: vec4<f32>) -> vec4<f32> { return ${taken}; }`;
  return { file: "weight_operand.wgsl", text };
}

/** The parts that read a second weight. */
function secondParts(kind: MatmulKind, options: ReaderOptions): WgslPart[] {
  const type = WEIGHT_TYPES[kind.weight], place = { index: 1, binding: 1 + type.planes.length };
  return [
    ...weightReader(type, options).map((reader) => indexedWeightPart(reader, place)),
    { file: "matmul_lanes_second.wgsl", text: secondWgsl },
  ];
}

/** The parts that define `finish`, which stores the sums of all weights. */
function finishParts({ twin, addend }: ProductTerms): WgslPart[] {
  if (twin === null) {
    return [constantsPart({ ADDEND: addend }), { file: "matmul_lanes_finish_one.wgsl", text: finishOneWgsl }];
  }
  if (twin === "both") return [{ file: "matmul_lanes_finish_both.wgsl", text: finishBothWgsl }];
  const text = finishGatedWgsl;
  return [itemPart(4), activationPart(twin), { file: "matmul_lanes_finish_gated.wgsl", text }];
}

/** Defines `pair_0` and, for two weights, `pair_1`: eight numbers of a weight. */
function pairsPart(weights: number): WgslPart {
  const names = ["", "_1"].slice(0, weights);
  const lines = names.map((name, n) =>
    `fn pair_${n}(i: u32) -> Pair${name} { return load_pair${name}(i); }\n`
  );
  return { file: "pairs", text: lines.join("") };
}

/** The parts that define `x_scale` and `x_operand`: how a row of x becomes what is multiplied. */
function rowParts({ norm_eps }: ProductTerms, LANES: number): WgslPart[] {
  if (norm_eps === null) {
    const text = "fn x_scale(place: u32, lane: u32) -> f32 { return 1.0; }\n" +
      "fn x_operand(v: vec4<f32>, scale: f32, d: u32) -> vec4<f32> { return operand(v); }\n";
    return [{ file: "rows", text }];
  }
  return [
    constantsPart({ EPS: { f32: norm_eps } }),
    { file: "matmul_lanes_norm.wgsl", text: unroll(lanesNormWgsl, { LANES }) },
  ];
}

function lanesParts({ orientation }: MatmulKind, layout: LanesLayout, terms: ProductTerms): WgslPart[] {
  const { lanes, tile_rows: ROWS, tile_vectors: VECTORS } = layout, COLUMNS = lanes * VECTORS;
  const { has_lora: HAS_LORA, addend: ADDEND, continued: CONTINUED, has_rest: HAS_REST } = terms;
  const sizes = { LANES: lanes, ROWS, VECTORS, COLUMNS, THREADS: lanesThreads(lanes) };
  if (orientation === "nn") {
    assert(COLUMNS % 4 === 0 && layout.owns === "rows", "a lane of nn has rows, and vectors of 4 columns");
    const text = unroll(lanesNnWgsl, { ...sizes, OWNERS: COLUMNS / 4 });
    return [
      lanesPart(lanes),
      constantsPart({ HAS_LORA, ADDEND, CONTINUED }),
      { file: "matmul_lanes_nn.wgsl", text },
    ];
  }
  const WEIGHTS = terms.twin === null ? 1 : 2, RANK = terms.a_rank;
  const ranks = { WEIGHTS, RANK, RANK4: RANK / 4, A_VECTORS: Math.ceil(RANK / lanes) };
  const shared = [
    { file: "matmul_lanes_first.wgsl", text: firstWgsl },
    ...finishParts(terms),
    lanesPart(lanes),
  ];
  if (layout.owns === "rows") {
    const constants = { ...sizes, ...ranks, COLUMNS4: COLUMNS / 4, PHASES: RANK > 0 ? 1 : 2 };
    const text = unroll(lanesNtWgsl, constants, { products: lanesProductsWgsl });
    return [...shared, constantsPart({ HAS_LORA }), { file: "matmul_lanes_nt.wgsl", text }];
  }
  assert(VECTORS === 4 && lanes > 1, "lanes of 4 columns share rows of x");
  const text = unroll(lanesFewWgsl, { LANES: lanes, LANES2: lanes / 2, ROWS, ...ranks });
  const constantsOfFew = constantsPart({ HAS_REST, READS_U: HAS_LORA && RANK === 0 });
  const own = [constantsOfFew, pairsPart(WEIGHTS), ...rowParts(terms, lanes)];
  return [...shared, ...own, { file: "matmul_lanes_few.wgsl", text }];
}

/** The most rows or columns, in fours, that neighbouring threads stage at once: as many as there are banks of vectors. */
const MOST_AT_ONCE = 8;

function tilesSizes(layout: TilesLayout): UnrollConstants {
  const { block_rows, block_columns, thread_rows, thread_columns } = layout;
  const across = block_columns / thread_columns, threads = block_rows / thread_rows * across;
  // A block is four rows or columns by four steps; a tile has 16 steps.
  const blocks = block_rows + block_columns;
  return {
    ...{ BLOCK_ROWS: block_rows, BLOCK_COLUMNS: block_columns, BLOCKS: blocks },
    ...{ THREAD_ROWS: thread_rows, THREAD_ROWS4: thread_rows / 4, THREAD_COLUMNS4: thread_columns / 4 },
    ...{ ACROSS: across, THREADS: threads, PASSES: Math.ceil(blocks / threads) },
    ROWS_AT_ONCE: Math.min(MOST_AT_ONCE, block_rows / 4),
    COLUMNS_AT_ONCE: Math.min(MOST_AT_ONCE, block_columns / 4),
  };
}

/** A form's text after what stages its operands. */
function stagedParts(
  orientation: MatmulKind["orientation"],
  sizes: UnrollConstants,
  form: WgslPart,
): WgslPart[] {
  const stage = orientation === "nt" ? tilesNtWgsl : tilesNnWgsl;
  return [
    { file: "matmul_stage.wgsl", text: unroll(stageWgsl, sizes) },
    { file: `matmul_tiles_${orientation}.wgsl`, text: unroll(stage, sizes) },
    { file: form.file, text: unroll(form.text, sizes, { steps: stepsWgsl }) },
  ];
}

function tilesParts({ orientation }: MatmulKind, layout: TilesLayout): WgslPart[] {
  return stagedParts(orientation, tilesSizes(layout), { file: "matmul_tiles.wgsl", text: tilesWgsl });
}

/** The parts before those of a form for the product of x with weights of these types. */
export function segmentsParts(
  types: readonly WeightTypeName[],
  compute: MatmulKind["compute"],
): WgslPart[] {
  let first = 1;
  const weights = types.flatMap((type, index) => {
    const loads_f16 = loadsF16({ weight: type, compute }), own = { index, binding: first };
    first += WEIGHT_TYPES[type].planes.length;
    return [
      ...weightReader(WEIGHT_TYPES[type], { loads_f16 }).map((reader) => indexedWeightPart(reader, own)),
      weightAtPart(`_${index}`, loads_f16),
    ];
  });
  return [
    operandPart(compute),
    ...weights,
    constantsPart({ first }),
    { file: "matmul_segments.wgsl", text: unroll(segmentsWgsl, { SEGMENTS: types.length }) },
  ];
}

/** The parts of the form `tiles` for the product of x with weights of these types. */
export function segmentsTilesParts(
  types: readonly WeightTypeName[],
  compute: MatmulKind["compute"],
  layout: TilesLayout,
): WgslPart[] {
  const sizes = { ...tilesSizes(layout), SEGMENTS: types.length };
  const form = { file: "matmul_segments_tiles.wgsl", text: segmentsTilesWgsl };
  return [...segmentsParts(types, compute), ...stagedParts("nt", sizes, form)];
}

/**
 * The reader of one weight of several: what its type's text declares gets the weight's index, and the bindings from this one
 * on.
 */
function indexedWeightPart(
  { file, text }: WgslPart,
  { index, binding }: { index: number; binding: number },
): WgslPart {
  const declared = [...text.matchAll(/^(?:@.*)?\b(?:fn|const|var(?:<[^>]*>)?|alias|struct) (\w+)/gm)];
  const names = new RegExp(`\\b(?:${declared.map(([, name]) => name).join("|")})\\b`, "g");
  const own = text.replace(names, (name) => `${name}_${index}`)
    .replace(/@binding\((\d+)\)/g, (_, own: string) => `@binding(${Number(own) + binding - 1})`);
  return { file, text: own };
}
