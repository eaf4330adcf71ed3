// Scatters rows: a thread owns an item of a row. Words are copied as they are, so every type of 4 bytes will do.
//
//   x[index[i], c] = y[i, c]; a row whose index is no row of x is left out
//
//   params  rows of x N, rows of y M, items of a row
//   y       [M, C]       in
//   index   [M] u32      in, each row of x at most once
//   x       [N, C]       out, overwritten in indexed rows
//
// Dispatch: ceil(M · items / 64) workgroups, wrapped into y. `word` is linked: u32 or vec4<u32>.

struct Params { target_rows: u32, rows: u32, items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> y: array<word>;
@group(0) @binding(2) var<storage, read> index: array<u32>;
@group(0) @binding(3) var<storage, read_write> x: array<word>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let at = id.x + id.y * groups.x * threads;
  let i = at / params.items;
  if i >= params.rows || index[i] >= params.target_rows { return; }
  x[index[i] * params.items + at % params.items] = y[at];
}
