/**
 * The barrier-free matmul of software adapters: a lane owns rows, the lanes of a subgroup share the weights.
 *
 * A software adapter spends nearly all its time in loads, one scalar at a time and lane by lane, while arithmetic
 * and broadcasts are vector instructions. So every lane loads other elements of the weight, once, and
 * `subgroupBroadcast` hands them round: per step of 4 along the depth a lane loads `tile_rows` vectors of x and 4 of
 * W for 16 · lanes · tile_rows multiplications. With one lane (no subgroup operations) the same text is an
 * ordinary register tile.
 */

import type { WgslPart } from "../kernel.ts";
import { type MatmulForm, matmulParts, range } from "./matmul_text.ts";

/** How the text is laid out over a subgroup. */
export interface LanesLayout {
  /** Invocations that share loads; 1 where the device cannot broadcast. */
  lanes: number;
  /** Rows that a lane owns. */
  tile_rows: number;
  /** Vectors of the weight that a lane loads per step: the tile has 4 · lanes columns for 4. */
  tile_vectors: number;
}

/** Columns of one workgroup's tile. */
function tileColumns({ lanes, tile_vectors }: LanesLayout): number {
  return lanes * tile_vectors;
}

const AXES = ["x", "y", "z", "w"] as const;

/** Invocations of a workgroup whose lanes share nothing: each has a tile of its own. */
const SINGLE_LANES = 32;

/** Columns of all tiles of a workgroup. */
export function groupColumns(layout: LanesLayout): number {
  return tileColumns(layout) * (layout.lanes === 1 ? SINGLE_LANES : 1);
}

/** The kernel's text. In `nn` a step takes 4 rows of W, so `tile_vectors` must be 4. */
export function matmulLanesText(form: MatmulForm, layout: LanesLayout): WgslPart[] {
  const { lanes, tile_rows } = layout;
  const broadcast = (name: string, lane: number) =>
    lanes === 1 ? name : `subgroupBroadcast(${name}, ${lane}u)`;
  const step = form.orientation === "nt" ? stepNt(layout, broadcast) : stepNn(layout, broadcast);
  const rows = range(tile_rows);
  const text = `
@compute @workgroup_size(${lanes === 1 ? SINGLE_LANES : lanes})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(${
    lanes === 1 ? "local_invocation_index" : "subgroup_invocation_id"
  }) index: u32) {
  let lane = ${lanes === 1 ? "0u" : "index"};
  let first_row = group.x * ${lanes * tile_rows}u + lane;
  let first_column = group.y * ${groupColumns(layout)}u${
    lanes === 1 ? ` + index * ${tileColumns(layout)}u` : ""
  };
  let last_row = params.rows - 1u;
${rows.map((i) => `  let row${i} = min(first_row + ${i * lanes}u, last_row);`).join("\n")}
${step.setup}
${step.accumulators}

  // The low-rank term is the loop's tail: other operands, the same products.
  let steps = params.depth / 4u;
  let lora_steps = params.rank / 4u;
  for (var s = 0u; s < steps + lora_steps; s++) {
${rows.map((i) => `    var x${i}: vec4<f32>;`).join(" ")}
${step.declare}
    if s < steps {
${rows.map((i) => `      x${i} = load_x(row${i}, s);`).join("\n")}
${step.load("load_weight", "s", "steps")}
    } else {
      let d = s - steps;
${rows.map((i) => `      x${i} = load_u(row${i}, d);`).join("\n")}
${step.load("load_lora", "d", "lora_steps")}
    }
${step.multiply}
  }

${step.stores}
}

fn load_lora(i: u32) -> vec4<f32> { return lora[i]; }
`;
  return [...matmulParts(form), { file: "matmul_lanes.ts", text }];
}

interface Step {
  setup: string;
  accumulators: string;
  declare: string;
  load(reader: string, step: string, steps: string): string;
  multiply: string;
  stores: string;
}

type Broadcast = (name: string, lane: number) => string;

/** W is [columns, depth]: a lane loads 4 neighbours along the depth of its own columns. */
function stepNt({ lanes, tile_rows, tile_vectors }: LanesLayout, broadcast: Broadcast): Step {
  const columns = lanes * tile_vectors;
  const sum = (i: number, j: number) => `sum${i}_${j}`;
  const vectors = range(tile_vectors);
  return {
    setup: "  let last_column = params.columns - 1u;\n" +
      vectors.map((q) => `  let column${q} = min(first_column + ${q * lanes}u + lane, last_column);`).join(
        "\n",
      ),
    accumulators: range(tile_rows).map((i) =>
      `  ${range(columns).map((j) => `var ${sum(i, j)} = 0.0;`).join(" ")}`
    ).join("\n"),
    declare: `    ${vectors.map((q) => `var w${q}: vec4<f32>;`).join(" ")}`,
    load: (reader, step, steps) =>
      vectors.map((q) => `      w${q} = operand(${reader}(column${q} * ${steps} + ${step}));`).join("\n"),
    multiply: range(columns).map((j) => {
      const value = `    let c${j} = ${broadcast(`w${Math.floor(j / lanes)}`, j % lanes)};`;
      const products = range(tile_rows).map((i) =>
        AXES.map((axis) => `${sum(i, j)} = fma(x${i}.${axis}, c${j}.${axis}, ${sum(i, j)});`).join(" ")
      );
      return `${value} ${products.join(" ")}`;
    }).join("\n"),
    stores: range(tile_rows).map((i) =>
      range(columns / 4).map((j) => {
        const four = range(4).map((c) => sum(i, 4 * j + c)).join(", ");
        return `  store(first_row + ${i * lanes}u, first_column / 4u + ${j}u, vec4<f32>(${four}));`;
      }).join("\n")
    ).join("\n"),
  };
}

/** W is [depth, columns]: a lane loads 4 neighbouring columns of 4 rows along the depth. */
function stepNn({ lanes, tile_rows, tile_vectors }: LanesLayout, broadcast: Broadcast): Step {
  if (tile_vectors !== 4) throw new Error("nn loads 4 rows of W per step");
  const sum = (i: number, l: number) => `sum${i}_${l}`;
  return {
    setup: "  let columns4 = params.columns / 4u;\n" +
      "  let column4 = min(first_column / 4u + lane, columns4 - 1u);",
    accumulators: range(tile_rows).map((i) =>
      `  ${range(lanes).map((l) => `var ${sum(i, l)} = vec4<f32>();`).join(" ")}`
    ).join("\n"),
    declare: `    ${range(4).map((q) => `var w${q}: vec4<f32>;`).join(" ")}`,
    load: (reader, step) =>
      range(4).map((q) => `      w${q} = operand(${reader}((4u * ${step} + ${q}u) * columns4 + column4));`)
        .join(
          "\n",
        ),
    multiply: range(lanes).map((l) =>
      range(4).map((q) => {
        const value = `    let c${l}_${q} = ${broadcast(`w${q}`, l)};`;
        const products = range(tile_rows).map((i) =>
          `${sum(i, l)} = fma(vec4<f32>(x${i}.${AXES[q]}), c${l}_${q}, ${sum(i, l)});`
        );
        return `${value} ${products.join(" ")}`;
      }).join("\n")
    ).join("\n"),
    stores: range(tile_rows).map((i) =>
      range(lanes).map((l) => `  store(first_row + ${i * lanes}u, first_column / 4u + ${l}u, ${sum(i, l)});`)
        .join("\n")
    ).join("\n"),
  };
}
