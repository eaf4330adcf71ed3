// Gradient of a LoRA factor for GPUs, first of two steps: a workgroup of 64 threads owns a tile of 64 columns and 16
// ranks and one part of the rows; 16 rows at a time pass through shared memory. The parts are added by
// lora_gradient_reduce.wgsl in one order.
//
//   partials[s, c, r] = Σ_m p[m, c] · q[m, q_offset + r]        over the rows m of part s
//
//   params    rows M, rows of a part (a multiple of 16), vec4s of a row of p, columns of a row of q, q_offset, rank R,
//             strides of out, elements of out
//   p         [M, P] f32        in
//   q         [M, stride] f32   in, of which R columns from q_offset on
//   partials  [S, out] f32      out, overwritten
//
// Dispatch: ceil(P / 64) × ceil(R / 16) × S workgroups. The text is a template: `#for` lines repeat.

struct Params {
  rows: u32,
  part_rows: u32,
  columns: u32,
  q_stride: u32,
  q_offset: u32,
  rank: u32,
  column_stride: u32,
  rank_stride: u32,
  count: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> p: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> q: array<f32>;
@group(0) @binding(3) var<storage, read_write> partials: array<f32>;

var<workgroup> p_tile: array<vec4<f32>, 256>;
var<workgroup> q_tile: array<vec4<f32>, 64>;

fn load_q(m: u32, rank: u32, end: u32) -> f32 {
  if m >= end || rank >= params.rank { return 0.0; }
  return q[m * params.q_stride + params.q_offset + rank];
}

fn store(base: u32, column: u32, rank: u32, sum: vec4<f32>) {
  if column >= params.columns || rank >= params.rank { return; }
  let at = base + 4u * column * params.column_stride + rank * params.rank_stride;
  partials[at] = sum.x;
  partials[at + params.column_stride] = sum.y;
  partials[at + 2u * params.column_stride] = sum.z;
  partials[at + 3u * params.column_stride] = sum.w;
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let x = thread % 16u;
  let y = thread / 16u;
  let column = group.x * 16u;
  let rank = group.y * 16u;
  let start = group.z * params.part_rows;
  let end = min(start + params.part_rows, params.rows);
  // Rows after the part add 0, because q is 0 there; columns after the last are not stored.
  let last_row = params.rows - 1u;
  let load_column = min(column + x, params.columns - 1u);
  #for r 4
  var sum{r} = vec4<f32>();
  #end
  for (var m = start; m < end; m += 16u) {
    workgroupBarrier();
    #for i 4
    p_tile[thread + {i}u * 64u] = p[min(m + y + {i}u * 4u, last_row) * params.columns + load_column];
    #end
    let row = m + thread / 4u;
    let quad = rank + 4u * (thread % 4u);
    q_tile[thread] = vec4<f32>(
      load_q(row, quad, end), load_q(row, quad + 1u, end), load_q(row, quad + 2u, end), load_q(row, quad + 3u, end));
    workgroupBarrier();
    #for k 16
    let p{k} = p_tile[{k}u * 16u + x];
    let q{k} = q_tile[{k}u * 4u + y];
    sum0 += p{k} * q{k}.x;
    sum1 += p{k} * q{k}.y;
    sum2 += p{k} * q{k}.z;
    sum3 += p{k} * q{k}.w;
    #end
  }
  #for r 4
  store(group.z * params.count, column + x, rank + 4u * y + {r}u, sum{r});
  #end
}
