// Embedding from an f32 table: a thread owns an item of a row.
//
//   x[n, c] = values[ids[n], c]
//
//   params  rows N, items of a row
//   ids     [N] u32      in, below V
//   values  [V, C] f32   in
//   x       [N, C] f32   out, overwritten
//
// Dispatch: ceil(N · items / 64) workgroups, wrapped into y. `item` is linked.

struct Params { rows: u32, items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read> values: array<item>;
@group(0) @binding(3) var<storage, read_write> x: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * threads;
  let n = index / params.items;
  if n >= params.rows { return; }
  x[index] = values[ids[n] * params.items + index % params.items];
}
