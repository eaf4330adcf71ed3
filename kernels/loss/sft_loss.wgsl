// The loss of supervised fine-tuning and its derivative with respect to each log-probability: a thread owns a row.
//
//   loss = −weight · logprob / normalizer        g = −weight / normalizer
//
//   params   rows, first row, all rows R, normalizer
//   logprob  [R] f32      in
//   weight   [R] f32      in
//   g        [R] f32      out, overwritten for these rows
//   results  [4, R] f32   out, overwritten for these rows: loss, 1, 0, 0, as policy_loss.wgsl
//
// Dispatch: ceil(rows / 64) workgroups.

struct Params { rows: u32, first_row: u32, total: u32, normalizer: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logprob: array<f32>;
@group(0) @binding(2) var<storage, read> weight: array<f32>;
@group(0) @binding(3) var<storage, read_write> g: array<f32>;
@group(0) @binding(4) var<storage, read_write> results: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x >= params.rows { return; }
  let r = params.first_row + id.x;
  let scale = weight[r] / params.normalizer;
  g[r] = -scale;
  results[r] = -scale * logprob[r];
  results[params.total + r] = 1.0;
  results[2u * params.total + r] = 0.0;
  results[3u * params.total + r] = 0.0;
}
