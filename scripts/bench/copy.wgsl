// Memory bandwidth: every number is read once and written once.
//
//   y[i] = x[i]
//
//   params  items, threads: the items of all threads together are copied in strides of `threads`
//   x       [items] vec4 f32   in
//   y       [items] vec4 f32   out
//
// Dispatch: `threads` threads, a multiple of 64, wrapped into y.

struct Params { items: u32, threads: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let first = id.x + id.y * groups.x * 64u;
  if first >= params.threads { return; }
  for (var i = first; i < params.items; i += params.threads) { y[i] = x[i]; }
}
