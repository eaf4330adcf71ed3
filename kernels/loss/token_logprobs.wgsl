// Softmax statistics over the vocabulary, second of two steps: a thread owns a row and combines its slices in order.
//
//   m = max z        log_sum = log Σ exp(z − m)        logsumexp = m + log_sum
//   logprob = z[target] − m − log_sum                  entropy = log_sum − Σ (z − m) · exp(z − m) / Σ exp(z − m)
//
//   params      rows, V, slices S, first row
//   partials    [rows, S, 4] f32   in, from vocabulary_partials.wgsl
//   logits      [rows, V] f32      in
//   targets     [R] u32            in, below V; entry first_row + row belongs to the row
//   logprob     [R] f32            out, overwritten for these rows
//   entropy     [R] f32            out, overwritten for these rows
//   logsumexp  [R, 2] f32         out, overwritten for these rows: m, log_sum
//
// Dispatch: ceil(rows / 64) workgroups.

struct Params { rows: u32, vocabulary: u32, slices: u32, first_row: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> targets: array<u32>;
@group(0) @binding(4) var<storage, read_write> logprob: array<f32>;
@group(0) @binding(5) var<storage, read_write> entropy: array<f32>;
@group(0) @binding(6) var<storage, read_write> logsumexp: array<vec2<f32>>;

const masked = -3.0e38;
const farthest = -100.0;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  if row >= params.rows { return; }
  var m = masked;
  var sum = 0.0;
  var weighted = 0.0;
  for (var s = 0u; s < params.slices; s++) {
    let slice = partials[row * params.slices + s];
    let top = max(m, slice.x);
    let fall = max(m - top, farthest);
    let slice_fall = max(slice.x - top, farthest);
    let scale = exp(fall);
    let slice_scale = exp(slice_fall);
    weighted = scale * (weighted + fall * sum) + slice_scale * (slice.z + slice_fall * slice.y);
    sum = scale * sum + slice_scale * slice.y;
    m = top;
  }
  let at = params.first_row + row;
  let log_sum = log(sum);
  let z = max(logits[row * params.vocabulary + targets[at]], masked);
  logprob[at] = (z - m) - log_sum;
  entropy[at] = log_sum - weighted / sum;
  logsumexp[at] = vec2<f32>(m, log_sum);
}
