// Gradient of a LoRA factor for software adapters whose lanes do not broadcast: a thread owns four columns and four ranks and
// iterates over all rows, so there is no barrier and the sum has one order.
//
//   out[c, r] += alpha · Σ_m p[m, c] · q[m, q_offset + r]
//
//   params  rows M, vec4s of a row of p, columns of a row of q, q_offset, rank R, strides of out, alpha
//   p       [M, P] f32        in
//   q       [M, stride] f32   in, of which R columns from q_offset on
//   out     [P, R] or [R, P]  out, accumulated
//
// Dispatch: ceil(P/4 / 8) × ceil(R / 4) workgroups.

struct Params {
  rows: u32,
  columns: u32,
  q_stride: u32,
  q_offset: u32,
  rank: u32,
  column_stride: u32,
  rank_stride: u32,
  alpha: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> p: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

fn add(column: u32, rank: u32, sum: vec4<f32>) {
  if rank >= params.rank { return; }
  let at = 4u * column * params.column_stride + rank * params.rank_stride;
  out[at] += params.alpha * sum.x;
  out[at + params.column_stride] += params.alpha * sum.y;
  out[at + 2u * params.column_stride] += params.alpha * sum.z;
  out[at + 3u * params.column_stride] += params.alpha * sum.w;
}

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x;
  if column >= params.columns { return; }
  let first = 4u * id.y;
  let last = params.rank - 1u;
  var sum0 = vec4<f32>();
  var sum1 = vec4<f32>();
  var sum2 = vec4<f32>();
  var sum3 = vec4<f32>();
  for (var m = 0u; m < params.rows; m++) {
    let columns = p[m * params.columns + column];
    let row = m * params.q_stride + params.q_offset;
    sum0 += columns * q[row + first];
    sum1 += columns * q[row + min(first + 1u, last)];
    sum2 += columns * q[row + min(first + 2u, last)];
    sum3 += columns * q[row + min(first + 3u, last)];
  }
  add(column, first, sum0);
  add(column, first + 1u, sum1);
  add(column, first + 2u, sum2);
  add(column, first + 3u, sum3);
}
