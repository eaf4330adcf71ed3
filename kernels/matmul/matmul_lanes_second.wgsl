// The same for a second weight, 1, of the type and shape of the first (matmul_lanes_first.wgsl). Its columns of u, or its rows
// of A, are those after the first one's.
//
//   lora_1   [columns, R] f32   in, B of its low-rank term, in the place of a residual
//
// Linked: matmul_operands.wgsl, and the weight's reader with names that end in _1.

@group(0) @binding(first + 3u) var<storage, read> lora_1: array<vec4<f32>>;

fn place_0_1(row: u32) -> u32 { return x_place(row); }
fn place_1_1(row: u32) -> u32 { return u_place(row) + params.rank / 4u; }
fn w_0_1(i: u32) -> vec4<f32> { return weight_operand(load_weight_1(i)); }
fn w_1_1(i: u32) -> vec4<f32> { return operand(lora_1[i]); }
fn a_row_1(r: u32) -> u32 { return a_row_0(params.rank + r); }
