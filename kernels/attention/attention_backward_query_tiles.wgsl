// Packed attention, backward to q, for GPUs: rows, heads and threads are laid out as in attention_forward_tiles.wgsl;
// a thread holds at most 8 vectors each of q, d_o and d_q.
//
//   p[i, h, j] = exp(s[i, h, j] − lse[i, h])
//   d_s[i, h, j] = soft_cap'(s[i, h, j]) · p[i, h, j] · (d_o[i, h] · v[j] − delta[i, h])
//   d_q[i, h] = scale · Σ_j d_s[i, h, j] · k[j]
//
//   params  rows N, heads H, kv_heads K, scale
//   q       [N, H, D] f32   in
//   k, v    [N, K, D] f32   in
//   rows    [N, 4]    u32   in: prefix_start, prefix_length, own_start, subtree_end
//   lse     [N, H]    f32   in, from the forward pass
//   d_o     [N, H, D] f32   in
//   delta   [N, H]    f32   in, from attention_delta.wgsl
//   d_q     [N, H, D] f32   out, overwritten
//
// Dispatch: ceil(N / ROWS) × K · ceil(H / K / HEADS) workgroups; a template for unroll.ts.
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
@group(0) @binding(8) var<storage, read_write> d_q: array<vec4<f32>>;

const TILE = {KEYS}u * {D4}u;

// Nested arrays: where the key is a constant, naga clamps one index for all keys.
var<workgroup> k_tile: array<array<vec4<f32>, {D4}>, {KEYS}>;
var<workgroup> v_tile: array<array<vec4<f32>, {D4}>, {KEYS}>;
// The parts of s and d_p.
var<workgroup> s_part: array<array<vec2<f32>, {THREADS}>, {KEYS}>;

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let part = thread % {PARTS}u;
  let slot = thread / {PARTS}u;
  let first = group.x * {ROWS}u;
  let i = first + slot % {ROWS}u;
  let last = params.rows - 1u;
  let row = min(i, last);
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let head = group.y % chunks * {HEADS}u + slot / {ROWS}u;
  let at = row * params.heads + kv * group_heads + min(head, group_heads - 1u);

  let span = rows[row];
  let tile = rows[first];
  // A row of padding sees only itself.
  let place = place_of(tile, i);
  let begin = select(place, first_seen(place), span.z == tile.z);
  let end = place_of(tile, first) + {ROWS}u;

  let lse_i = lse[at];
  let delta_i = delta[at];
  #for c CHUNKS
  let q{c} = q[at * {D4}u + {c}u * {PARTS}u + part] * params.scale;
  let d_o{c} = d_o[at * {D4}u + {c}u * {PARTS}u + part];
  var d_q{c} = vec4<f32>();
  #end

  for (var base = first_block(place_of(tile, first), {KEYS}u); base < end; base += {KEYS}u) {
    workgroupBarrier();
    for (var x = thread; x < TILE; x += {THREADS}u) {
      let j = base + x / {D4}u;
      let key_row = row_of_key(tile, j);
      let from_key = (min(key_row, last) * params.kv_heads + kv) * {D4}u + x % {D4}u;
      k_tile[x / {D4}u][x % {D4}u] = k[from_key];
      v_tile[x / {D4}u][x % {D4}u] = v[from_key];
    }
    workgroupBarrier();

    #for l KEYS
    {
      var s = vec2<f32>();
      #for c CHUNKS
      s.x += dot(q{c}, k_tile[{l}][{c}u * {PARTS}u + part]);
      s.y += dot(d_o{c}, v_tile[{l}][{c}u * {PARTS}u + part]);
      #end
      s_part[{l}][thread] = s;
    }
    #end
    workgroupBarrier();

    #for l KEYS
    {
      let seen = sees(begin, place, base + {l}u);
      var s = vec2<f32>();
      #for x PARTS
      s += s_part[{l}][slot * {PARTS}u + {x}u];
      #end
      let c = soft_cap(s.x);
      let d_s = select(0.0, soft_cap_gradient(exp(c - lse_i) * (s.y - delta_i), c), seen);
      #for c CHUNKS
      d_q{c} += d_s * k_tile[{l}][{c}u * {PARTS}u + part];
      #end
    }
    #end
  }

  if i > last || head >= group_heads { return; }
  #for c CHUNKS
  d_q[at * {D4}u + {c}u * {PARTS}u + part] = d_q{c} * params.scale;
  #end
}
