// Embedding from a Q8_0 table: a thread owns four neighbours of a row, which share a scale.
//
//   x[n, c] = scales[ids[n], c / 32] · values[ids[n], c]
//
//   params  rows N, items of a row C/4
//   ids     [N] u32         in, below V
//   values  [V, C] i8       in, four to a word
//   scales  [V, C/32] f32   in
//   x       [N, C] f32      out, overwritten
//
// Dispatch: ceil(N · C/4 / 64) workgroups, wrapped into y.

struct Params { rows: u32, items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> ids: array<u32>;
@group(0) @binding(2) var<storage, read> values: array<u32>;
@group(0) @binding(3) var<storage, read> scales: array<f32>;
@group(0) @binding(4) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * threads;
  let n = index / params.items;
  if n >= params.rows { return; }
  let entry = ids[n] * params.items + index % params.items;
  x[index] = scales[entry / 8u] * vec4<f32>(unpack4xI8(values[entry]));
}
