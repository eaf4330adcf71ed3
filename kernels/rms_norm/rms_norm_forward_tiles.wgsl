// Root mean square normalisation, forward, for GPUs: a workgroup owns a row and sums it in shared memory.
//
//   rstd[n] = 1 / sqrt(1/C Σ_c x[n, c]² + eps)        y[n, c] = x[n, c] · rstd[n] · gamma[c] (+ residual[n, c])
//
//   params    rows N, items of a row, width C, eps, addend: 1 where there is a residual
//   x         [N, C] f32   in
//   gamma     [C]    f32   in
//   residual  [N, C] f32   in, or unused
//   y         [N, C] f32   out, overwritten
//   rstd      [N]    f32   out, overwritten; kept for the backward pass
//
// Dispatch: N workgroups, wrapped into y. `item`, `group_sum` and `threads`, a power of two that follows from C, are linked.
// Kernels that normalise what they compute (kernels/fused/) do it with the same operations in the same order.
// Source: Zhang, Sennrich (2019), equation 4.

struct Params { rows: u32, items: u32, width: u32, eps: f32, addend: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<item>;
@group(0) @binding(2) var<storage, read> gamma: array<item>;
@group(0) @binding(3) var<storage, read> residual: array<item>;
@group(0) @binding(4) var<storage, read_write> y: array<item>;
@group(0) @binding(5) var<storage, read_write> rstd: array<f32>;

@compute @workgroup_size(threads)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let n = group.x + group.y * groups.x;
  if n >= params.rows { return; }
  let row = n * params.items;
  var squares = 0.0;
  for (var i = thread; i < params.items; i += threads) { squares = item_squares(x[row + i], squares); }
  let scale = inverseSqrt(group_sum(thread, squares) / f32(params.width) + params.eps);
  for (var i = thread; i < params.items; i += threads) {
    var v = x[row + i] * scale * gamma[i];
    if params.addend == 1u { v += residual[row + i]; }
    y[row + i] = v;
  }
  if thread == 0u { rstd[n] = scale; }
}
