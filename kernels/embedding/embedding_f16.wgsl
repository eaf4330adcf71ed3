// Embedding from a packed f16 table: a thread owns a pair of a row.
//
//   x[n, c] = values[ids[n], c]
//
//   params  rows N, items of a row C/2
//   ids     [N] u32               in, below V
//   values  [V, C] f16            in, two to a word
//   x       [N, C] f32            out, overwritten
//
// Dispatch: ceil(N · C/2 / 64) workgroups, wrapped into y.

struct Params { rows: u32, items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read> values: array<u32>;
@group(0) @binding(3) var<storage, read_write> x: array<vec2<f32>>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * threads;
  let n = index / params.items;
  if n >= params.rows { return; }
  x[index] = unpack2x16float(values[ids[n] * params.items + index % params.items]);
}
