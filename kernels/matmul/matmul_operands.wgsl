// What all forms of the matmul share: operands, and how they are read.
//
//   y' = x' · W' + lora_scale · u' · lora' (+ residual') (+ y')    W' is Wᵀ in nt and W in nn, lora' likewise
//
//   params    rows N, columns, depth, rank R, u_stride, u_column, lora_scale, addend: 1 residual, 2 y itself, or both;
//             x_stride, x_column, y_stride, y_column; continued: 1 where sums start from y' instead of 0; chunk_tiles and
//             walked: see matmul_tiles.wgsl. The forms for software adapters have constants for some of them
//   weight    [columns, depth] in nt, [depth, columns] in nn   in, read by `load_weight`
//   x         [N, x_stride] f32   in, x' is its columns from x_column on
//   u         [N, u_stride] f32   in, u' is its columns from u_column on; or A [·, depth], of which u_column is a row, where
//             a form for software adapters multiplies x with it
//   lora      [columns, R] in nt, [R, columns] in nn   f32   in
//   y         [N, y_stride] f32   out, overwritten, or added to; y' is its columns from y_column on
//
// `load_weight` and its planes, and `first`, the binding after them, are linked.

struct Params {
  rows: u32, columns: u32, depth: u32,
  rank: u32, u_stride: u32, u_column: u32, lora_scale: f32,
  addend: u32,
  x_stride: u32, x_column: u32, y_stride: u32, y_column: u32, continued: u32,
  chunk_tiles: u32, walked: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(first) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(first + 1u) var<storage, read> u: array<vec4<f32>>;
@group(0) @binding(first + 2u) var<storage, read> lora: array<vec4<f32>>;
@group(0) @binding(first + 4u) var<storage, read_write> y: array<vec4<f32>>;

// The first vector of a row. A software adapter loads parameters slowly, so its kernels call these before their loops.
fn x_place(row: u32) -> u32 { return (row * params.x_stride + params.x_column) / 4u; }
fn u_place(row: u32) -> u32 { return (row * params.u_stride + params.u_column) / 4u; }

fn load_lora(i: u32) -> vec4<f32> { return lora[i]; }

fn output_index(row: u32, column4: u32) -> u32 {
  return (row * params.y_stride + params.y_column) / 4u + column4;
}

// The sum that an earlier part of the weight left. What lies outside of y' is never stored.
fn load_sum(row: u32, column4: u32) -> vec4<f32> { return y[output_index(row, column4)]; }
