// Samples a token, second of two steps: a thread owns a row and combines its slices in order.
//
//   token = the id of the largest score, the lowest among equals
//   logprob = z'[token] − log Σ exp(z'): under the sampled distribution, or under temperature 1 if T is 0
//
//   params       rows B, V, slices S
//   partials     [B, S, 4] f32   in, from sample_partials.wgsl
//   logits       [B, V] f32      in
//   temperature  [B] f32         in
//   token        [B] u32         out, overwritten
//   logprob      [B] f32         out, overwritten
//
// Dispatch: ceil(B / 64) workgroups.

struct Params { rows: u32, vocabulary: u32, slices: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> temperature: array<f32>;
@group(0) @binding(4) var<storage, read_write> token: array<u32>;
@group(0) @binding(5) var<storage, read_write> logprob: array<f32>;

const farthest = -100.0;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  if row >= params.rows { return; }
  var joined = partials[row * params.slices];
  for (var s = 1u; s < params.slices; s++) {
    let slice = partials[row * params.slices + s];
    let top = max(joined.x, slice.x);
    let sum = joined.y * exp(max(joined.x - top, farthest)) + slice.y * exp(max(slice.x - top, farthest));
    let better = slice.z > joined.z || (slice.z == joined.z && slice.w < joined.w);
    joined = vec4<f32>(top, sum, select(joined.zw, slice.zw, better));
  }
  let t = temperature[row];
  let inverse = 1.0 / select(t, 1.0, t == 0.0);
  let sampled = u32(joined.w);
  token[row] = sampled;
  logprob[row] = (logits[row * params.vocabulary + sampled] * inverse - joined.x) - log(joined.y);
}
