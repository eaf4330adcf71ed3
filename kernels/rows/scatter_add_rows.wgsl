// Adds rows at indexed positions: a thread owns an item of a row.
//
//   x[index[i], c] += y[i, c], or nothing if index[i] is not a row of x
//
//   params  rows of x N, rows of y M, items of a row
//   y       [M, C] f32   in
//   index   [M] u32      in; each row of x at most once, or threads would race
//   x       [N, C] f32   out, accumulated
//
// Dispatch: ceil(M · items / 64) workgroups, wrapped into y. `item` is linked.

struct Params { target_rows: u32, rows: u32, items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> y: array<item>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> x: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let at = id.x + id.y * groups.x * threads;
  let i = at / params.items;
  if i >= params.rows { return; }
  let row = index[i];
  if row < params.target_rows { x[row * params.items + at % params.items] += y[at]; }
}
