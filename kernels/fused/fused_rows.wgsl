// The output of a block: a product's chunks with its low-rank term, the residual, and the norm of the result, for GPUs.
//
//   u[n, r] = lora_scale · Σ_k a_k[n, u_column + r]
//   y[n, c] = residual[n, c] + (Σ_k s_k[n, c] + Σ_r u[n, r] · B[c, r]) (+ bias[c])
//   normed[n, c] = y[n, c] / sqrt(1/C Σ_c y[n, c]² + eps) · gamma[c]
//
//   params    rows N; items of a row, C / 4; place and chunks of s; place and chunks of a, its items, the first one of u;
//             items of u, 0 without a low-rank term; lora_scale; width C; eps; options: 1 bias, 2 norm
//   sums      s and a       in, see segment_sums.wgsl
//   lora      [C, R]  f32   in
//   residual  [N, C]  f32   in
//   bias      [C]     f32   in, or unused
//   gamma     [C]     f32   in, or unused
//   y         [N, C]  f32   out, overwritten
//   normed    [N, C]  f32   out, overwritten with a norm
//
// A workgroup owns a row. `item_squares`, `group_sum`, `threads` and `MAX_RANK4` are linked.
// Dispatch: N workgroups, wrapped into y.

struct Params {
  rows: u32, items: u32, place: u32, chunks: u32,
  u_place: u32, u_chunks: u32, u_items: u32, u_first: u32,
  rank_items: u32, lora_scale: f32, width: u32, eps: f32, options: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> residual: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> bias: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read> gamma: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> y: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read_write> normed: array<vec4<f32>>;

var<workgroup> u: array<vec4<f32>, MAX_RANK4>;

@compute @workgroup_size(threads)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let n = group.x + group.y * groups.x;
  if n >= params.rows { return; }
  for (var r = thread; r < params.rank_items; r += threads) {
    let first = params.u_place + n * params.u_items + params.u_first + r;
    u[r] = operand(params.lora_scale * chunk_sum(first, params.rows * params.u_items, params.u_chunks));
  }
  workgroupBarrier();
  let row = n * params.items;
  var squares = 0.0;
  for (var i = thread; i < params.items; i += threads) {
    var v = chunk_sum(params.place + row + i, params.rows * params.items, params.chunks);
    if params.rank_items > 0u {
      var z = vec4<f32>();
      for (var r = 0u; r < params.rank_items; r++) {
        let b = 4u * i * params.rank_items + r;
        z = add_low_rank(z, u[r], low_rank_at(b, params.rank_items));
      }
      v += z;
    }
    v = residual[row + i] + v;
    if (params.options & 1u) != 0u { v = v + bias[i]; }
    y[row + i] = v;
    squares = item_squares(v, squares);
  }
  if (params.options & 2u) == 0u { return; }
  // As in rms_norm_forward_tiles.wgsl.
  let total = group_sum(thread, squares);
  let scale = inverseSqrt(total / f32(params.width) + params.eps);
  for (var i = thread; i < params.items; i += threads) { normed[row + i] = y[row + i] * scale * gamma[i]; }
}
