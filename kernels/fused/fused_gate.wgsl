// The gated activation of two products whose chunks were summed, with their low-rank terms, for GPUs.
//
//   u_s[n, r] = lora_scale · Σ_k a_k[n, u_column_s + r]
//   g_s[n, f] = Σ_k s_k[n, f] + Σ_r u_s[n, r] · B_s[f, r]        for the segments s = 0, the gate, and 1
//   h[n, f] = activate(g_0[n, f]) · g_1[n, f]
//
//   params  rows N; items of a row, F / 4; of a segment: place and chunks of s, items of its u, 0 without a low-rank term,
//           the first one in a, the first vector of its B; place and chunks of a, and its items; lora_scale
//   sums    s_0, s_1 and a         in, see segment_sums.wgsl
//   lora    B of both [F, R] f32   in
//   h       [N, F] f32             out, overwritten
//
// A thread owns an item of ROWS rows, so that B is read once for them. `activate` and `MAX_RANK4` are linked.
// Dispatch: ceil(F / 4 / 64) × ceil(N / ROWS) workgroups; a template for unroll.ts.

struct Params {
  rows: u32, items: u32,
  #for s 2
  place{s}: u32, chunks{s}: u32, rank_items{s}: u32, u_first{s}: u32, lora_place{s}: u32,
  #end
  u_place: u32, u_chunks: u32, u_items: u32, lora_scale: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read_write> h: array<vec4<f32>>;

var<workgroup> u: array<array<vec4<f32>, MAX_RANK4>, {2*ROWS}>;

fn load_u(segment: u32, thread: u32, first_row: u32, rank_items: u32, first_item: u32) {
  for (var i = thread; i < {ROWS}u * rank_items; i += 64u) {
    let n = min(first_row + i / rank_items, params.rows - 1u);
    let first = params.u_place + n * params.u_items + first_item + i % rank_items;
    let value = chunk_sum(first, params.rows * params.u_items, params.u_chunks);
    u[segment * {ROWS}u + i / rank_items][i % rank_items] = operand(params.lora_scale * value);
  }
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let first_row = group.y * {ROWS}u;
  #for s 2
  load_u({s}u, thread, first_row, params.rank_items{s}, params.u_first{s});
  #end
  workgroupBarrier();
  let i = group.x * 64u + thread;
  if i >= params.items { return; }
  #for j ROWS
  let at{j} = min(first_row + {j}u, params.rows - 1u) * params.items + i;
  #end
  #for s 2
  #for j ROWS
  var g{s}_{j} = chunk_sum(params.place{s} + at{j}, params.rows * params.items, params.chunks{s});
  var z{s}_{j} = vec4<f32>();
  #end
  for (var r = 0u; r < params.rank_items{s}; r++) {
    let b = low_rank_at(params.lora_place{s} + 4u * i * params.rank_items{s} + r, params.rank_items{s});
    #for j ROWS
    z{s}_{j} = add_low_rank(z{s}_{j}, u[{s*ROWS+j}][r], b);
    #end
  }
  if params.rank_items{s} > 0u {
    #for j ROWS
    g{s}_{j} += z{s}_{j};
    #end
  }
  #end
  #for j ROWS
  if first_row + {j}u < params.rows { h[at{j}] = activate(g0_{j}) * g1_{j}; }
  #end
}
