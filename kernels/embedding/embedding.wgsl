// Embedding: a thread owns four neighbours of a row.
//
//   x[n, c] = scale · table[ids[n] − first, c]
//
//   params  rows N, items of a row C/4, first and count of the table's rows, scale
//   table   [count, C]   in, `load_weight` and the planes that it reads are linked
//   ids     [N] u32      in; those of other rows are left to the dispatches of the table's other parts
//   x       [N, C] f32   out, overwritten
//
// Dispatch: ceil(N · C/4 / threads) workgroups, wrapped into y. `first` is the binding after those of the table's planes.

struct Params { rows: u32, items: u32, first: u32, count: u32, scale: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(first) var<storage, read> ids: array<u32>;
@group(0) @binding(first + 1u) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * threads;
  let n = index / params.items;
  if n >= params.rows { return; }
  // Below the first row the difference wraps, so it is above every count.
  let row = ids[n] - params.first;
  if row >= params.count { return; }
  x[index] = params.scale * load_weight(row * params.items + index % params.items);
}
