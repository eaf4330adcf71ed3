// Packed attention, backward to k and v, for GPUs: a workgroup owns ROWS consecutive keys of one key/value head, and the
// rows of one part: PART rows from its first key on, or from where the part before ends. It walks them in blocks, with all
// query heads of the group inside. A thread has 4 keys: of the scores those with every KG-th row of a block, of d_k and d_v
// every KG-th vector; wide heads are split between SLICES workgroups. The files that are inserted say how. So keys of a prompt
// that many rows see do not occupy one workgroup with all of them. attention_key_parts.wgsl adds the parts.
//
//   d_v[j] = Σ_i Σ_h p[i, h, j] · d_o[i, h]        d_k[j] = scale · Σ_i Σ_h d_s[i, h, j] · q[i, h]
//
// p and d_s as in attention_backward_query_tiles.wgsl; i in j … subtree_end[j] − 1. The sum has one order: parts, in a part
// blocks of 32 rows, in a block the heads, in a head the rows. No atomics.
//
//   params  rows N, heads H, kv_heads K, scale; first_key of the dispatch, out_rows M, part rows
//   q       [N, H, D] f32   in
//   k, v    [N, K, D] f32   in
//   rows    [N, 4]    u32   in: prefix_start, prefix_length, own_start, subtree_end
//   lse     [N, H]    f32   in, from the forward pass
//   d_o     [N, H, D] f32   in
//   delta   [N, H]    f32   in, from attention_delta.wgsl
//   d_k     [parts, M, K, D] f32   out: the keys from first_key on; parts without rows are not written
//   d_v     [parts, M, K, D] f32   out
//
// Dispatch: ceil(M / ROWS) × K · SLICES × parts workgroups; a template for unroll.ts.
// `visibility.wgsl` is linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 2.

struct Params {
  rows: u32, heads: u32, kv_heads: u32, scale: f32,
  first_key: u32, out_rows: u32, part: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read> lse: array<f32>;
@group(0) @binding(6) var<storage, read> d_o: array<vec4<f32>>;
@group(0) @binding(7) var<storage, read> delta: array<f32>;
@group(0) @binding(8) var<storage, read_write> d_k: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> d_v: array<vec4<f32>>;

const BLOCK = 32u;

// Keys or values, then the weights of 4 keys; rows. 9 numbers instead of 8 keep neighbours in different banks.
var<workgroup> a_tile: array<array<array<vec4<f32>, 9>, {G}>, 4>;
var<workgroup> b_tile: array<array<array<vec4<f32>, 9>, {KG}>, {KT}>;

fn left0(at: u32) -> vec4<f32> { return k[at]; }
fn right0(at: u32) -> vec4<f32> { return q[at]; }
fn left1(at: u32) -> vec4<f32> { return v[at]; }
fn right1(at: u32) -> vec4<f32> { return d_o[at]; }
fn summed0(at: u32) -> vec4<f32> { return d_o[at]; }
fn summed1(at: u32) -> vec4<f32> { return q[at]; }

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let g = thread / {KG}u;
  let kg = thread % {KG}u;
  let kv = group.y / {SLICES}u;
  let column_from = group.y % {SLICES}u * {V_STAGES*KG}u;
  let first = params.first_key + group.x * {ROWS}u;
  let last = params.rows - 1u;
  let group_heads = params.heads / params.kv_heads;
  var end = 0u;
  for (var x = 0u; x < {ROWS}u; x++) { end = max(end, rows[min(first + x, last)].w); }
  let start = first + group.z * params.part;
  end = min(min(end, params.rows), start + params.part);
  if start >= end { return; }

  let left_step = params.kv_heads * {D4}u;
  let lane = min(thread % 8u, {CW}u - 1u);
  let load = thread / 8u;
  let left_at = (first + load) * left_step + kv * {D4}u;
  let key = first + 4u * g;

  var sum = vec4<f32>();
  #for n V_STAGES
  #for i 4
  var o0_{i}_{n} = vec4<f32>();
  var o1_{i}_{n} = vec4<f32>();
  #end
  #end
  for (var base = start; base < end; base += BLOCK) {
    // Rows whose windows begin after these keys. Neither a block of rows nor the workgroup's keys cross a segment.
    if passed(rows[min(base, last)], base, min(first + {ROWS}u - 1u, last)) { continue; }
    var seen = 0u;
    #for t KT
    {
      let row = base + {t*KG}u + kg;
      let span = rows[min(row, last)];
      #for i 4
      seen |= select(0u, 1u << {4*t+i}u, row <= last && row_sees(span, row, key + {i}u));
      #end
    }
    #end
    for (var head = kv * group_heads; head < (kv + 1u) * group_heads; head++) {
      let quads = (min(end - base, BLOCK) + 3u) / 4u;
      #for n K_LOADS
      let right_at{n} = (min(base + load + {n*LOADERS}u, last) * params.heads + head) * {D4}u;
      #end
      #insert products
      #for t KT
      let at{t} = min(base + {t*KG}u + kg, last) * params.heads + head;
      let lse{t} = lse[at{t}];
      let delta{t} = delta[at{t}];
      #for i 4
      let capped{i}_{t} = soft_cap(s0_{i}_{t} * params.scale);
      let w0_{i}_{t} = select(0.0, exp(capped{i}_{t} - lse{t}), ((seen >> {4*t+i}u) & 1u) == 1u);
      let w1_{i}_{t} = soft_cap_gradient(w0_{i}_{t} * (s1_{i}_{t} - delta{t}), capped{i}_{t});
      #end
      #end
      #insert sums
    }
  }

  #for i 4
  if key + {i}u <= last {
    let x = ((group.z * params.out_rows + key + {i}u - params.first_key) * params.kv_heads + kv) * {D4}u;
    #for n V_STAGES
    if column_from + {n*KG}u + kg < {D4}u {
      d_v[x + column_from + {n*KG}u + kg] = o0_{i}_{n};
      d_k[x + column_from + {n*KG}u + kg] = o1_{i}_{n} * params.scale;
    }
    #end
  }
  #end
}
