// Softmax statistics over the vocabulary, second of two steps: a thread owns a row and combines its slices in order. On GPUs
// the threads of a workgroup load the slices of one row together, so that this thread does not wait for memory at each of
// them.
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
// Dispatch: `rows` workgroups if rows_staged, else ceil(rows / threads), wrapped into y. `threads` and `rows_staged` are linked.

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

var<workgroup> staged: array<vec4<f32>, threads>;

fn slice_of(row: u32, s: u32) -> vec4<f32> {
  if rows_staged { return staged[s]; }
  return partials[row * params.slices + s];
}

@compute @workgroup_size(threads)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let index = group.x + group.y * groups.x;
  let row = select(index * threads + thread, index, rows_staged);
  if rows_staged {
    if thread < params.slices { staged[thread] = partials[row * params.slices + thread]; }
    workgroupBarrier();
    if thread > 0u { return; }
  }
  if row >= params.rows { return; }
  var m = masked;
  var sum = 0.0;
  var weighted = 0.0;
  for (var s = 0u; s < params.slices; s++) {
    let slice = slice_of(row, s);
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
