// Samples a token, second of two steps: a thread owns a row and combines its slices in order. On GPUs the threads of a
// workgroup load the slices of one row together, so that this thread does not wait for memory at each of them.
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
// Dispatch: B workgroups if rows_staged, else ceil(B / threads), wrapped into y. `threads` and `rows_staged` are linked.

struct Params { rows: u32, vocabulary: u32, slices: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> logits: array<f32>;
@group(0) @binding(3) var<storage, read> temperature: array<f32>;
@group(0) @binding(4) var<storage, read_write> token: array<u32>;
@group(0) @binding(5) var<storage, read_write> logprob: array<f32>;

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
  var joined = slice_of(row, 0u);
  for (var s = 1u; s < params.slices; s++) {
    let slice = slice_of(row, s);
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
