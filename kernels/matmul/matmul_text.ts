/** The parts of a matmul's text: what both forms share, and the form's own. */

import { assert } from "../../core/errors.ts";
import type { WgslPart } from "../kernel.ts";
import { unroll } from "../unroll.ts";
import { constantsPart, lanesPart, lanesThreads } from "../variant.ts";
import { WEIGHT_TYPES, type WeightTypeName } from "../weights/table.ts";
import lanesNnWgsl from "./matmul_lanes_nn.wgsl" with { type: "text" };
import lanesNtWgsl from "./matmul_lanes_nt.wgsl" with { type: "text" };
import operandsWgsl from "./matmul_operands.wgsl" with { type: "text" };
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
  /** Rows that a lane owns. */
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

/** Columns of all tiles of a workgroup. */
export function groupColumns(layout: LanesLayout): number {
  return lanesThreads(layout.lanes) * layout.tile_vectors;
}

/** The kernel's parts: the weight's reader, what both forms share, and the form's own text. */
export function matmulParts(kind: MatmulKind, layout: LanesLayout | TilesLayout): WgslPart[] {
  const { planes, wgsl } = WEIGHT_TYPES[kind.weight];
  return [
    wgsl,
    constantsPart({ first: 1 + planes.length }),
    kind.compute === "f16"
      ? { file: "operand_f16.wgsl", text: operandF16Wgsl }
      : { file: "operand_f32.wgsl", text: operandF32Wgsl },
    { file: "matmul_operands.wgsl", text: operandsWgsl },
    ...layout.form === "lanes" ? lanesParts(kind, layout) : tilesParts(kind, layout),
  ];
}

function lanesParts({ orientation }: MatmulKind, layout: LanesLayout): WgslPart[] {
  const { lanes, tile_rows: ROWS, tile_vectors: VECTORS } = layout, COLUMNS = lanes * VECTORS;
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
  return [lanesPart(lanes), { file: `matmul_lanes_${orientation}.wgsl`, text }];
}

function tilesParts({ orientation }: MatmulKind, layout: TilesLayout): WgslPart[] {
  const { block_rows, block_columns, thread_rows, thread_columns } = layout;
  const sizes = {
    ...{ BLOCK_ROWS: block_rows, BLOCK_COLUMNS: block_columns },
    ...{ THREAD_ROWS: thread_rows, THREAD_ROWS4: thread_rows / 4 },
    ...{ THREAD_COLUMNS: thread_columns, THREAD_COLUMNS4: thread_columns / 4 },
    THREADS: block_rows / thread_rows * (block_columns / thread_columns),
  };
  const stage = orientation === "nt" ? tilesNtWgsl : tilesNnWgsl;
  return [
    { file: `matmul_tiles_${orientation}.wgsl`, text: unroll(stage, sizes) },
    { file: "matmul_tiles.wgsl", text: unroll(tilesWgsl, sizes) },
  ];
}
