// Adds one row to every row, in place: a thread owns an item of y.
//
//   y[n, c] ← y[n, c] + bias[c]
//
//   params  count: items of y, row_items: items of a row
//   bias    [C] f32        in
//   y       [N, C] f32     in and out
//
// Dispatch: a thread an item of y, 64 to a workgroup, wrapped into y. `item` is linked.

struct Params { count: u32, row_items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> bias: array<item>;
@group(0) @binding(2) var<storage, read_write> y: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * threads;
  if i >= params.count { return; }
  y[i] = y[i] + bias[i % params.row_items];
}
