// The importance ratio of a trajectory, as a logarithm, at each of its rows: a thread owns a trajectory and adds
// its rows in order.
//
//   log_ratio[r] = 1/|i| Σ_{q ∈ i} (logprob[q] − old_logprob[q])        for every row r of trajectory i
//
//   params       trajectories J
//   logprob      [R] f32      in
//   old_logprob  [R] f32      in
//   ranges       [J, 2] u32   in: first row and the row after the last
//   log_ratio    [R] f32      out, overwritten for the rows of the trajectories
//
// Dispatch: ceil(J / 64) workgroups.
// Source: Zheng et al., "Group Sequence Policy Optimization" (2025), equation 7: the mean, not the sum.

struct Params { trajectories: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logprob: array<f32>;
@group(0) @binding(2) var<storage, read> old_logprob: array<f32>;
@group(0) @binding(3) var<storage, read> ranges: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read_write> log_ratio: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x >= params.trajectories { return; }
  let range = ranges[id.x];
  var sum = 0.0;
  for (var r = range.x; r < range.y; r++) { sum += logprob[r] - old_logprob[r]; }
  let mean = sum / f32(range.y - range.x);
  for (var r = range.x; r < range.y; r++) { log_ratio[r] = mean; }
}
