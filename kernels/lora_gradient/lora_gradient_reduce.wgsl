// Gradient of a LoRA factor for GPUs, second of two steps: a thread owns an element and adds the parts in order. BATCH loads
// do not wait for each other.
//
//   out[c, r] += alpha · Σ_s partials[s, r, c]
//
//   params    columns P, rank R, parts S, strides of out, alpha
//   partials  [S, R, P] f32          in
//   out       [P, R] or [R, P] f32   out, accumulated
//
// Dispatch: ceil(P / 64) × R workgroups; a template for unroll.ts.

struct Params { columns: u32, rank: u32, parts: u32, column_stride: u32, rank_stride: u32, alpha: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let column = id.x;
  let rank = id.y;
  if column >= params.columns { return; }
  let first = rank * params.columns + column;
  let stride = params.rank * params.columns;
  let last = params.parts - 1u;
  var sum = 0.0;
  for (var s = 0u; s <= last; s += {BATCH}u) {
    #for k BATCH
    let p{k} = partials[first + min(s + {k}u, last) * stride];
    #end
    #for k BATCH
    if s + {k}u <= last { sum += p{k}; }
    #end
  }
  out[column * params.column_stride + rank * params.rank_stride] += params.alpha * sum;
}
