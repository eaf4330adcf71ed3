// Root mean square normalisation, backward to its input: a thread owns a row. Gamma is frozen.
//
//   g[n, c] = d_y[n, c] · gamma[c]        x̂[n, c] = x[n, c] · rstd[n]
//   d_x[n, c] (+)= rstd[n] · (g[n, c] − x̂[n, c] · 1/C Σ_k g[n, k] · x̂[n, k])
//
//   params  rows N, items of a row, width C, accumulate: the constant ACCUMULATES, which is linked
//   x       [N, C] f32   in
//   gamma   [C]    f32   in
//   rstd    [N]    f32   in, from the forward pass
//   d_y     [N, C] f32   in
//   d_x     [N, C] f32   out, overwritten, or accumulated where `accumulate` is 1
//
// Dispatch: ceil(N / threads) workgroups. `item` is linked.

struct Params { rows: u32, items: u32, width: u32, accumulate: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<item>;
@group(0) @binding(2) var<storage, read> gamma: array<item>;
@group(0) @binding(3) var<storage, read> rstd: array<f32>;
@group(0) @binding(4) var<storage, read> d_y: array<item>;
@group(0) @binding(5) var<storage, read_write> d_x: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let n = id.x;
  if n >= params.rows { return; }
  let row = n * params.items;
  let scale = rstd[n];
  var sum = item();
  for (var i = 0u; i < params.items; i++) { sum += d_y[row + i] * gamma[i] * x[row + i]; }
  let along = item_sum(sum) * scale * scale / f32(params.width);
  for (var i = 0u; i < params.items; i++) {
    let d = scale * (d_y[row + i] * gamma[i] - x[row + i] * along);
    if ACCUMULATES { d_x[row + i] = d_x[row + i] + d; } else { d_x[row + i] = d; }
  }
}
