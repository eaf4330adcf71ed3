// Root mean square normalisation, forward: a thread owns a row, so there is no barrier and no shared memory.
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
// Dispatch: ceil(N / threads) workgroups. Row n reads and writes row n only. `item` is linked.
// Source: Zhang, Sennrich (2019), equation 4.

struct Params { rows: u32, items: u32, width: u32, eps: f32, addend: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<item>;
@group(0) @binding(2) var<storage, read> gamma: array<item>;
@group(0) @binding(3) var<storage, read> residual: array<item>;
@group(0) @binding(4) var<storage, read_write> y: array<item>;
@group(0) @binding(5) var<storage, read_write> rstd: array<f32>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let n = id.x;
  if n >= params.rows { return; }
  let items = params.items;
  let row = n * items;
  let adds = params.addend == 1u;
  var squares = item();
  for (var i = 0u; i < items; i++) {
    let v = x[row + i];
    squares = fma(v, v, squares);
  }
  let scale = inverseSqrt(item_sum(squares) / f32(params.width) + params.eps);
  for (var i = 0u; i < items; i++) {
    var v = x[row + i] * scale * gamma[i];
    if adds { v += residual[row + i]; }
    y[row + i] = v;
  }
  rstd[n] = scale;
}
