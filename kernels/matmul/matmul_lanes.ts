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
export function tileColumns({ lanes, tile_vectors }: LanesLayout): number {
  return lanes * tile_vectors;
}

const AXES = ["x", "y", "z", "w"] as const;

/** The kernel's text. In `nn` a step takes 4 rows of W, so `tile_vectors` must be 4. */
export function matmulLanesText(form: MatmulForm, layout: LanesLayout): WgslPart[] {
  const { lanes, tile_rows } = layout;
  const columns = tileColumns(layout);
  const broadcast = (name: string, lane: number) =>
    lanes === 1 ? name : `subgroupBroadcast(${name}, ${lane}u)`;
  const body = form.orientation === "nt" ? stepNt(layout, broadcast) : stepNn(layout, broadcast);
  const lane_argument = lanes === 1 ? "" : ", @builtin(subgroup_invocation_id) lane: u32";
  const text = `
@compute @workgroup_size(${lanes})
fn main(@builtin(workgroup_id) group: vec3<u32>${lane_argument}) {
  ${lanes === 1 ? "let lane = 0u;" : ""}
  let first_row = group.x * ${lanes * tile_rows}u + lane;
  let first_column = group.y * ${columns}u;
  let last_row = params.rows - 1u;
${range(tile_rows).map((i) => `  let row${i} = min(first_row + ${i * lanes}u, last_row);`).join("\n")}
${body.setup}
${body.accumulators}

  let steps = params.depth / 4u;
${range(tile_rows).map((i) => `  let x_row${i} = row${i} * steps;`).join("\n")}
  for (var d = 0u; d < steps; d++) {
${range(tile_rows).map((i) => `    let x${i} = operand(x[x_row${i} + d]);`).join("\n")}
${body.load("load_weight")}
${body.multiply}
  }

  let lora_steps = params.rank / 4u;
${
    range(tile_rows).map((i) => `  let u_row${i} = (row${i} * params.u_stride + params.u_column) / 4u;`).join(
      "\n",
    )
  }
  for (var d = 0u; d < lora_steps; d++) {
${range(tile_rows).map((i) => `    let x${i} = operand(params.lora_scale * u[u_row${i} + d]);`).join("\n")}
${body.load("load_lora")}
${body.multiply}
  }

${body.stores}
}

fn load_lora(i: u32) -> vec4<f32> { return lora[i]; }
`;
  return [...matmulParts(form), { file: "matmul_lanes.ts", text }];
}

interface Step {
  setup: string;
  accumulators: string;
  load(reader: string): string;
  multiply: string;
  stores: string;
}

type Broadcast = (name: string, lane: number) => string;

/** W is [columns, depth]: a lane loads 4 neighbours along the depth of its own columns. */
function stepNt({ lanes, tile_rows, tile_vectors }: LanesLayout, broadcast: Broadcast): Step {
  const columns = lanes * tile_vectors;
  const sum = (i: number, j: number) => `sum${i}_${j}`;
  return {
    setup: "  let last_column = params.columns - 1u;\n" +
      range(tile_vectors).map((q) =>
        `  let column${q} = min(first_column + ${q * lanes}u + lane, last_column);`
      )
        .join("\n"),
    accumulators: range(tile_rows).map((i) =>
      `  ${range(columns).map((j) => `var ${sum(i, j)} = 0.0;`).join(" ")}`
    ).join("\n"),
    load: (reader) =>
      range(tile_vectors).map((q) =>
        `    let w${q} = operand(${reader}(column${q} * ${
          reader === "load_lora" ? "lora_steps" : "steps"
        } + d));`
      ).join("\n"),
    multiply: range(columns).map((j) => {
      const value = `    let c${j} = ${broadcast(`w${Math.floor(j / lanes)}`, j % lanes)};`;
      const products = range(tile_rows).map((i) =>
        AXES.map((axis) => `${sum(i, j)} = fma(x${i}.${axis}, c${j}.${axis}, ${sum(i, j)});`).join(" ")
      );
      return `${value} ${products.join(" ")}`;
    }).join("\n"),
    stores: range(tile_rows).map((i) =>
      range(columns).map((j) => `  store(first_row + ${i * lanes}u, first_column + ${j}u, ${sum(i, j)});`)
        .join("\n")
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
    load: (reader) =>
      range(4).map((q) => `    let w${q} = operand(${reader}((4u * d + ${q}u) * columns4 + column4));`).join(
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
      range(lanes).map((l) =>
        AXES.map((axis, c) =>
          `  store(first_row + ${i * lanes}u, first_column + ${4 * l + c}u, ${sum(i, l)}.${axis});`
        ).join("\n")
      ).join("\n")
    ).join("\n"),
  };
}
