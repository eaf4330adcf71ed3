// Packed attention, backward to k and v, for GPUs: a workgroup owns ROWS consecutive keys of one key/value head and
// iterates over the rows that attend to them, KEYS rows at a time staged in workgroup memory, all query heads of the
// group inside. PARTS neighbouring threads share a key: each holds every PARTS-th vector of k, v, d_k and d_v, at most
// 8 of each.
//
//   d_v[j] = Σ_i Σ_h p[i, h, j] · d_o[i, h]        d_k[j] = scale · Σ_i Σ_h d_s[i, h, j] · q[i, h]
//
// p and d_s as in attention_backward_query_tiles.wgsl; i in j … subtree_end[j] − 1. The sum has one order: blocks of
// KEYS rows, in a block the heads, in a head the rows. No atomics.
//
//   params  rows N, heads H, kv_heads K, scale
//   q       [N, H, D] f32   in
//   k, v    [N, K, D] f32   in
//   rows    [N, 4]    u32   in: prefix_start, prefix_length, own_start, subtree_end
//   lse     [N, H]    f32   in, from the forward pass
//   d_o     [N, H, D] f32   in
//   delta   [N, H]    f32   in, from attention_delta.wgsl
//   d_k     [N, K, D] f32   out, overwritten
//   d_v     [N, K, D] f32   out, overwritten
//
// Dispatch: ceil(N / ROWS) × K workgroups; a template for unroll.ts.
// `visibility.wgsl` is linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 2.

struct Params { rows: u32, heads: u32, kv_heads: u32, scale: f32 }

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

const TILE = {KEYS}u * {D4}u;

// Nested arrays: where the key is a constant, naga clamps one index for all keys.
var<workgroup> q_tile: array<array<vec4<f32>, {D4}>, {KEYS}>;
var<workgroup> d_o_tile: array<array<vec4<f32>, {D4}>, {KEYS}>;
// The parts of s and d_p.
var<workgroup> s_part: array<array<vec2<f32>, {THREADS}>, {KEYS}>;

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let part = thread % {PARTS}u;
  let slot = thread / {PARTS}u;
  let first = group.x * {ROWS}u;
  let last = params.rows - 1u;
  let j = first + slot;
  let group_heads = params.heads / params.kv_heads;
  let kv = group.y;
  let at_key = (min(j, last) * params.kv_heads + kv) * {D4}u + part;

  #for c CHUNKS
  let k{c} = k[at_key + {c}u * {PARTS}u];
  let v{c} = v[at_key + {c}u * {PARTS}u];
  var d_k{c} = vec4<f32>();
  var d_v{c} = vec4<f32>();
  #end
  // Every thread searches the last row that attends these keys: no workgroup memory is left to share it.
  var end = 0u;
  for (var x = 0u; x < {ROWS}u; x++) { end = max(end, rows[min(first + x, last)].w); }
  end = min(end, params.rows);

  for (var base = first; base < end; base += {KEYS}u) {
    #for l KEYS
    let span{l} = rows[min(base + {l}u, last)];
    let seen{l} = base + {l}u <= last && row_sees(span{l}, base + {l}u, j);
    #end
    // Rows whose windows begin after these keys. Neither a block of rows nor the workgroup's keys cross a segment.
    if passed(span0, base, min(first + {ROWS}u - 1u, last)) { continue; }
    for (var h = 0u; h < group_heads; h++) {
      let head = kv * group_heads + h;
      workgroupBarrier();
      for (var x = thread; x < TILE; x += {THREADS}u) {
        let from_row = (min(base + x / {D4}u, last) * params.heads + head) * {D4}u + x % {D4}u;
        q_tile[x / {D4}u][x % {D4}u] = q[from_row] * params.scale;
        d_o_tile[x / {D4}u][x % {D4}u] = d_o[from_row];
      }
      workgroupBarrier();

      #for l KEYS
      {
        var s = vec2<f32>();
        #for c CHUNKS
        s.x += dot(k{c}, q_tile[{l}][{c}u * {PARTS}u + part]);
        s.y += dot(v{c}, d_o_tile[{l}][{c}u * {PARTS}u + part]);
        #end
        s_part[{l}][thread] = s;
      }
      #end
      workgroupBarrier();

      #for l KEYS
      {
        let at = min(base + {l}u, last) * params.heads + head;
        var s = vec2<f32>();
        #for x PARTS
        s += s_part[{l}][slot * {PARTS}u + {x}u];
        #end
        let c = soft_cap(s.x);
        let p = select(0.0, exp(c - lse[at]), seen{l});
        let d_s = soft_cap_gradient(p * (s.y - delta[at]), c);
        #for c CHUNKS
        d_v{c} += p * d_o_tile[{l}][{c}u * {PARTS}u + part];
        d_k{c} += d_s * q_tile[{l}][{c}u * {PARTS}u + part];
        #end
      }
      #end
    }
  }

  if j > last { return; }
  #for c CHUNKS
  d_k[at_key + {c}u * {PARTS}u] = d_k{c};
  d_v[at_key + {c}u * {PARTS}u] = d_v{c};
  #end
}
