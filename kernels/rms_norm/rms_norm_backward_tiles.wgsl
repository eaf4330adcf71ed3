// Root mean square normalisation, backward to its input, for GPUs: a workgroup owns a row. Gamma is frozen.
//
//   g[n, c] = d_y[n, c] · gamma[c]        x̂[n, c] = x[n, c] · rstd[n]
//   d_x[n, c] (+)= rstd[n] · (g[n, c] − x̂[n, c] · 1/C Σ_k g[n, k] · x̂[n, k])
//
//   params  rows N, items of a row, width C, accumulate
//   x       [N, C] f32   in
//   gamma   [C]    f32   in
//   rstd    [N]    f32   in, from the forward pass
//   d_y     [N, C] f32   in
//   d_x     [N, C] f32   out, overwritten, or accumulated where `accumulate` is 1
//
// Dispatch: N workgroups, wrapped into y. `item` and `threads`, a power of two that follows from C, are linked.

struct Params { rows: u32, items: u32, width: u32, accumulate: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<item>;
@group(0) @binding(2) var<storage, read> gamma: array<item>;
@group(0) @binding(3) var<storage, read> rstd: array<f32>;
@group(0) @binding(4) var<storage, read> d_y: array<item>;
@group(0) @binding(5) var<storage, read_write> d_x: array<item>;

var<workgroup> partial: array<f32, threads>;

@compute @workgroup_size(threads)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let n = group.x + group.y * groups.x;
  if n >= params.rows { return; }
  let row = n * params.items;
  let scale = rstd[n];
  var sum = item();
  for (var i = thread; i < params.items; i += threads) { sum += d_y[row + i] * gamma[i] * x[row + i]; }
  partial[thread] = item_sum(sum);
  for (var step = threads / 2u; step > 0u; step /= 2u) {
    workgroupBarrier();
    if thread < step { partial[thread] += partial[thread + step]; }
  }
  workgroupBarrier();
  let along = partial[0] * scale * scale / f32(params.width);
  for (var i = thread; i < params.items; i += threads) {
    let d = scale * (d_y[row + i] * gamma[i] - x[row + i] * along);
    if params.accumulate == 1u { d_x[row + i] += d; } else { d_x[row + i] = d; }
  }
}
