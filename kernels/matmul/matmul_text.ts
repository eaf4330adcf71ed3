/** The parts of a matmul's text: what both forms share, and the form's own. */

import { assert } from "../../core/errors.ts";
import { type Activation, activationPart } from "../gated_activation/gated_activation.ts";
import type { WgslPart } from "../kernel.ts";
import { unroll, type UnrollConstants } from "../unroll.ts";
import { constantsPart, itemPart, lanesPart, lanesThreads } from "../variant.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";
import { type ReaderOptions, weightReader, type WeightType } from "../weights/weight_type.ts";
import lanesFewWgsl from "./matmul_lanes_few.wgsl" with { type: "text" };
import lanesNnWgsl from "./matmul_lanes_nn.wgsl" with { type: "text" };
import lanesNtWgsl from "./matmul_lanes_nt.wgsl" with { type: "text" };
import operandsWgsl from "./matmul_operands.wgsl" with { type: "text" };
import segmentsWgsl from "./matmul_segments.wgsl" with { type: "text" };
import stageWgsl from "./matmul_stage.wgsl" with { type: "text" };
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
  /** Vectors of the weight that a lane loads per step: the tile has 4 · lanes columns for 4, which `nn` wants. */
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
  /** What is added when y is stored: 1 the residual, 2 y itself, or both. */
  addend: number;
  /** Whether sums start from y. */
  continued: boolean;
  /** Whether the depth ends within a step of all lanes, or a row of the weight between two vectors of a pair. */
  has_rest: boolean;
  /** Whether the weight's values are read from a texture of halves. */
  reads_halves: boolean;
  /** The function of the gate that the product is multiplied with; null: there is none. */
  activation: Activation | null;
}

/** The kernel's parts: the weight's reader, what all forms share, and the form's own text. */
export function matmulParts(
  kind: MatmulKind,
  layout: LanesLayout | TilesLayout,
  terms: ProductTerms,
): WgslPart[] {
  const reads_pairs = layout.form === "lanes" && layout.owns === "columns", { reads_halves } = terms;
  return [
    ...sharedParts(kind, { reads_pairs, reads_halves }),
    ...layout.form === "lanes" ? lanesParts(kind, layout, terms) : tilesParts(kind, layout),
  ];
}

/**
 * The parts before those of a form.
 *
 * @param options What the form needs of the weight's reader.
 */
export function sharedParts(kind: MatmulKind, options: ReaderOptions = {}): WgslPart[] {
  const { planes } = WEIGHT_TYPES[kind.weight];
  return [
    ...weightReader(WEIGHT_TYPES[kind.weight], options),
    constantsPart({ first: 1 + planes.length }),
    operandPart(kind.compute),
    weightOperandPart(kind),
    { file: "matmul_operands.wgsl", text: operandsWgsl },
  ];
}

/** Defines `operand`, which rounds what is multiplied. */
export function operandPart(compute: MatmulKind["compute"]): WgslPart {
  return compute === "f16"
    ? { file: "operand_f16.wgsl", text: operandF16Wgsl }
    : { file: "operand_f32.wgsl", text: operandF32Wgsl };
}

/** How a product takes a weight: as any operand, but what is stored as f16 needs no rounding. */
function weightOperandPart({ weight, compute }: MatmulKind): WgslPart {
  const taken = compute === "f16" && weight === "f16" ? "v" : "operand(v)";
  const text = `fn weight_operand(v: vec4<f32>) -> vec4<f32> { return ${taken}; }`;
  return { file: "weight_operand.wgsl", text };
}

/** Defines `gated`: what a sum is multiplied with before it is stored. A gate is where a residual would be. */
function gatePart(activation: Activation | null): WgslPart[] {
  const head = "fn gated(row: u32, column4: u32, sum: vec4<f32>) -> vec4<f32>";
  if (!activation) return [{ file: "no_gate.wgsl", text: `${head} { return sum; }\n` }];
  const text = `${head} { return activate(residual[output_index(row, column4)]) * sum; }\n`;
  return [itemPart(4), activationPart(activation), { file: "gate.wgsl", text }];
}

function lanesParts(
  { orientation }: MatmulKind,
  layout: LanesLayout,
  { has_lora, addend, continued, has_rest, activation }: ProductTerms,
): WgslPart[] {
  const shared = [
    ...gatePart(activation),
    lanesPart(layout.lanes),
    constantsPart({ HAS_LORA: has_lora, ADDEND: addend, CONTINUED: continued, HAS_REST: has_rest }),
  ];
  const { lanes, tile_rows: ROWS, tile_vectors: VECTORS } = layout, COLUMNS = lanes * VECTORS;
  if (layout.owns === "columns") {
    assert(orientation === "nt" && VECTORS === 4 && lanes > 1, "lanes of 4 columns share rows of x");
    const text = unroll(lanesFewWgsl, { LANES: lanes, LANES2: lanes / 2, ROWS });
    return [...shared, { file: "matmul_lanes_few.wgsl", text }];
  }
  assert(orientation === "nt" || VECTORS === 4, "nn loads 4 rows of W per step");
  const sizes = {
    LANES: lanes,
    ROWS,
    VECTORS,
    COLUMNS,
    COLUMNS4: COLUMNS / 4,
    THREADS: lanesThreads(lanes),
  };
  const text = unroll(orientation === "nt" ? lanesNtWgsl : lanesNnWgsl, sizes);
  return [...shared, { file: `matmul_lanes_${orientation}.wgsl`, text }];
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

/** The kernel's parts for the product of x with weights of these types. */
export function segmentsParts(
  types: readonly WeightTypeName[],
  compute: MatmulKind["compute"],
  layout: TilesLayout,
): WgslPart[] {
  const sizes = { ...tilesSizes(layout), SEGMENTS: types.length };
  let first = 1;
  const weights = types.flatMap((type, i) => {
    const part = segmentWeightPart({ weight: type, orientation: "nt", compute }, i, first);
    first += WEIGHT_TYPES[type].planes.length;
    return part;
  });
  return [
    operandPart(compute),
    ...weights,
    constantsPart({ first }),
    ...stagedParts("nt", sizes, { file: "matmul_segments.wgsl", text: segmentsWgsl }),
  ];
}

/** The reader of a segment's weight: what its type's text declares gets the segment's number and bindings. */
function segmentWeightPart(kind: MatmulKind, index: number, first: number): WgslPart {
  const { wgsl: { file, text } } = WEIGHT_TYPES[kind.weight];
  const declared = [...text.matchAll(/^(?:@.*)?\b(?:fn|const|var(?:<[^>]*>)?|alias|struct) (\w+)/gm)];
  const names = new RegExp(`\\b(?:${declared.map(([, name]) => name).join("|")})\\b`, "g");
  const own = text.replace(names, (name) => `${name}_${index}`)
    .replace(/@binding\((\d+)\)/g, (_, binding: string) => `@binding(${Number(binding) + first - 1})`);
  const load = weightOperandPart(kind).text.replace("weight_operand", `weight_operand_${index}`);
  const read =
    `fn weight_${index}(i: u32) -> vec4<f32> { return weight_operand_${index}(load_weight_${index}(i)); }`;
  return { file, text: `${own}\n${load}\n${read}\n` };
}
