// Gradient of a LoRA factor for GPUs, second of two steps: a thread owns an element and adds the parts in order.
//
//   out[i] += alpha · Σ_s partials[s, i]
//
//   params    elements of out, parts S, alpha
//   partials  [S, out] f32   in
//   out       f32            out, accumulated
//
// Dispatch: ceil(elements / 64) workgroups, wrapped into y.

struct Params { count: u32, parts: u32, alpha: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * 64u;
  if i >= params.count { return; }
  var sum = 0.0;
  for (var s = 0u; s < params.parts; s++) { sum += partials[s * params.count + i]; }
  out[i] += params.alpha * sum;
}
