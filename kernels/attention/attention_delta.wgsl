// Packed attention, backward, first step: a thread owns a row's head.
//
//   delta[i, h] = d_o[i, h] · o[i, h]        which is Σ_j p[i, h, j] · (d_o[i, h] · v[j])
//
//   params  count N · H, width D / 4
//   o       [N, H, D] f32   in, from the forward pass
//   d_o     [N, H, D] f32   in
//   delta   [N, H]    f32   out, overwritten
//
// Dispatch: ceil(N · H / 64) workgroups.
// Source: Dao, "FlashAttention-2" (2023), algorithm 2, line 4.

struct Params { count: u32, width: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> o: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> d_o: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> delta: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x >= params.count { return; }
  let begin = id.x * params.width;
  var sum = 0.0;
  for (var d = begin; d < begin + params.width; d++) { sum += dot(d_o[d], o[d]); }
  delta[id.x] = sum;
}
