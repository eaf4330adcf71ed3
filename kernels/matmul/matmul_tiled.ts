/**
 * The matmul of GPUs: a workgroup owns a tile of y, stages 16 steps of both operands in workgroup memory, and every
 * thread keeps a register tile in named accumulators. Both operands are staged depth-major, so that a thread reads
 * vectors; the transposition is done in registers, 4 × 4 at a time. Every output sums along the depth in order,
 * whatever the tile, so the choice of the tile does not change a bit.
 */

import type { WgslPart } from "../kernel.ts";
import { type MatmulForm, matmulParts, range } from "./matmul_text.ts";

/** A workgroup's tile and a thread's part of it. All are multiples of 4. */
export interface TiledLayout {
  block_rows: number;
  block_columns: number;
  thread_rows: number;
  thread_columns: number;
}

const STEP = 16;
const AXES = ["x", "y", "z", "w"] as const;

function tiledThreads(layout: TiledLayout): number {
  return layout.block_rows / layout.thread_rows * (layout.block_columns / layout.thread_columns);
}

/** The kernel's text. */
export function matmulTiledText(form: MatmulForm, layout: TiledLayout): WgslPart[] {
  const { block_rows, block_columns, thread_rows, thread_columns } = layout;
  const threads = tiledThreads(layout);
  const rows4 = block_rows / 4, columns4 = block_columns / 4;
  const sums = range(thread_rows).flatMap((i) => range(thread_columns / 4).map((j) => `sum${i}_${j}`));
  const text = `
var<workgroup> tile_x: array<vec4<f32>, ${STEP * rows4}>;
var<workgroup> tile_w: array<vec4<f32>, ${STEP * columns4}>;

fn load_lora(i: u32) -> vec4<f32> { return lora[i]; }
${stageX(rows4, threads)}
${form.orientation === "nt" ? stageNt(columns4, threads) : stageNn(columns4, threads)}

@compute @workgroup_size(${threads})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let first_row = group.x * ${block_rows}u;
  let first_column = group.y * ${block_columns}u;
  let thread_row = thread / ${block_columns / thread_columns}u * ${thread_rows}u;
  let thread_column = thread % ${block_columns / thread_columns}u * ${thread_columns}u;
${sums.map((name) => `  var ${name} = vec4<f32>();`).join("\n")}
  // The low-rank term is the loop's tail: other operands, the same products.
  let steps = params.depth / 4u;
  let lora_steps = params.rank / 4u;
  let tiles = (steps + ${STEP / 4 - 1}u) / ${STEP / 4}u;
  let lora_tiles = (lora_steps + ${STEP / 4 - 1}u) / ${STEP / 4}u;
  for (var t = 0u; t < tiles + lora_tiles; t++) {
    let is_lora = t >= tiles;
    let d = select(t, t - tiles, is_lora) * ${STEP / 4}u;
    let end = select(steps, lora_steps, is_lora);
    stage_x(thread, first_row, d, end, is_lora);
    stage_w(thread, first_column, d, end, is_lora);
    workgroupBarrier();
${multiply(layout)}
    workgroupBarrier();
  }
${stores(layout)}
}
`;
  return [...matmulParts(form), { file: "matmul_tiled.ts", text }];
}

/** A 4 × 4 block of x, transposed in registers; rows and steps behind the end count as zero. */
function stageX(rows4: number, threads: number): string {
  return `
fn read_x(row: u32, d: u32, steps: u32, is_lora: bool) -> vec4<f32> {
  if row >= params.rows || d >= steps { return vec4<f32>(); }
  if is_lora { return load_u(row, d); }
  return load_x(row, d);
}

fn stage_x(thread: u32, first_row: u32, d: u32, steps: u32, is_lora: bool) {
  for (var block = thread; block < ${rows4 * STEP / 4}u; block += ${threads}u) {
    let row4 = block % ${rows4}u;
    let q = block / ${rows4}u;
    let row = first_row + 4u * row4;
${range(4).map((i) => `    let r${i} = read_x(row + ${i}u, d + q, steps, is_lora);`).join("\n")}
${
    AXES.map((axis, c) =>
      `    tile_x[(4u * q + ${c}u) * ${rows4}u + row4] = vec4<f32>(r0.${axis}, r1.${axis}, r2.${axis}, r3.${axis});`
    ).join("\n")
  }
  }
}`;
}

function stageNt(columns4: number, threads: number): string {
  return `
fn read_w(column: u32, d: u32, steps: u32, is_lora: bool) -> vec4<f32> {
  if column >= params.columns || d >= steps { return vec4<f32>(); }
  if is_lora { return operand(load_lora(column * steps + d)); }
  return operand(load_weight(column * steps + d));
}

fn stage_w(thread: u32, first_column: u32, d: u32, steps: u32, is_lora: bool) {
  for (var block = thread; block < ${columns4 * STEP / 4}u; block += ${threads}u) {
    let column4 = block % ${columns4}u;
    let q = block / ${columns4}u;
    let column = first_column + 4u * column4;
${range(4).map((i) => `    let r${i} = read_w(column + ${i}u, d + q, steps, is_lora);`).join("\n")}
${
    AXES.map((axis, c) =>
      `    tile_w[(4u * q + ${c}u) * ${columns4}u + column4] = vec4<f32>(r0.${axis}, r1.${axis}, r2.${axis}, r3.${axis});`
    ).join("\n")
  }
  }
}`;
}

function stageNn(columns4: number, threads: number): string {
  return `
fn read_w(step: u32, column4: u32, steps: u32, is_lora: bool) -> vec4<f32> {
  let columns4 = params.columns / 4u;
  if column4 >= columns4 || step >= 4u * steps { return vec4<f32>(); }
  if is_lora { return operand(load_lora(step * columns4 + column4)); }
  return operand(load_weight(step * columns4 + column4));
}

fn stage_w(thread: u32, first_column: u32, d: u32, steps: u32, is_lora: bool) {
  for (var at = thread; at < ${columns4 * STEP}u; at += ${threads}u) {
    tile_w[at] = read_w(4u * d + at / ${columns4}u, first_column / 4u + at % ${columns4}u, steps, is_lora);
  }
}`;
}

/** 16 unrolled steps: each reads thread_rows + thread_columns numbers for their product. */
function multiply({ block_rows, block_columns, thread_rows, thread_columns }: TiledLayout): string {
  return range(STEP).map((k) => {
    const xs = range(thread_rows / 4).map((i) =>
      `    let x${k}_${i} = tile_x[${k * block_rows / 4}u + thread_row / 4u + ${i}u];`
    );
    const ws = range(thread_columns / 4).map((j) =>
      `    let w${k}_${j} = tile_w[${k * block_columns / 4}u + thread_column / 4u + ${j}u];`
    );
    const sums = range(thread_rows).flatMap((i) =>
      range(thread_columns / 4).map((j) =>
        `    sum${i}_${j} = fma(vec4<f32>(x${k}_${Math.floor(i / 4)}.${
          AXES[i % 4]
        }), w${k}_${j}, sum${i}_${j});`
      )
    );
    return [...xs, ...ws, ...sums].join("\n");
  }).join("\n");
}

function stores({ thread_rows, thread_columns }: TiledLayout): string {
  return range(thread_rows).flatMap((i) =>
    range(thread_columns / 4).map((j) =>
      `  store(first_row + thread_row + ${i}u, (first_column + thread_column) / 4u + ${j}u, sum${i}_${j});`
    )
  ).join("\n");
}
