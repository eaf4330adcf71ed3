// Packed attention, forward, for GPUs: a workgroup owns ROWS consecutive rows of one segment and HEADS query heads of
// one key/value head. KEYS keys and values at a time are staged in workgroup memory for all of them. PARTS neighbouring
// threads share a row's head: each holds every PARTS-th vector of q and o (at most 8 of each, so that two dozen
// registers of state stay far from spilling at D = 128), and their parts of a dot product meet in workgroup memory.
//
//   s[i, h, j] = soft_cap(scale · q[i, h] · k[j, kv(h)])        j: the keys that row i sees
//   o[i, h] = Σ_j exp(s[i, h, j] − lse[i, h]) · v[j, kv(h)]        lse[i, h] = log Σ_j exp s[i, h, j]
//
//   params  rows N, heads H, kv_heads K, scale
//   q       [N, H, D] f32   in
//   k, v    [N, K, D] f32   in
//   rows    [N, 4]    u32   in: prefix_start, prefix_length, own_start, subtree_end
//   o       [N, H, D] f32   out, overwritten
//   lse     [N, H]    f32   out, overwritten; the backward pass needs it
//
// Dispatch: ceil(N / ROWS) × K · ceil(H / K / HEADS) workgroups; a template for unroll.ts.
// `visibility.wgsl` is linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 1.

struct Params { rows: u32, heads: u32, kv_heads: u32, scale: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> rows: array<vec4<u32>>;
@group(0) @binding(5) var<storage, read_write> o: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> lse: array<f32>;

const LOWEST = -3.0e38;
const TILE = {KEYS}u * {D4}u;

// Nested arrays: where the key is a constant, naga clamps one index for all keys.
var<workgroup> k_tile: array<array<vec4<f32>, {D4}>, {KEYS}>;
var<workgroup> v_tile: array<array<vec4<f32>, {D4}>, {KEYS}>;
var<workgroup> s_part: array<array<f32, {THREADS}>, {KEYS}>;

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

  var m = LOWEST;
  var sum = 0.0;
  #for c CHUNKS
  let q{c} = q[at * {D4}u + {c}u * {PARTS}u + part] * params.scale;
  var o{c} = vec4<f32>();
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
      var s = 0.0;
      #for c CHUNKS
      s += dot(q{c}, k_tile[{l}][{c}u * {PARTS}u + part]);
      #end
      s_part[{l}][thread] = s;
    }
    #end
    workgroupBarrier();

    var top = m;
    #for l KEYS
    let seen{l} = sees(begin, place, base + {l}u);
    var s{l} = 0.0;
    #for x PARTS
    s{l} += s_part[{l}][slot * {PARTS}u + {x}u];
    #end
    s{l} = select(LOWEST, soft_cap(s{l}), seen{l});
    top = max(top, s{l});
    #end

    let keep = exp(m - top);
    m = top;
    sum *= keep;
    #for c CHUNKS
    o{c} *= keep;
    #end
    #for l KEYS
    {
      let p = exp(s{l} - top);
      sum += p;
      #for c CHUNKS
      o{c} += p * v_tile[{l}][{c}u * {PARTS}u + part];
      #end
    }
    #end
  }

  if i > last || head >= group_heads { return; }
  let scale = 1.0 / sum;
  #for c CHUNKS
  o[at * {D4}u + {c}u * {PARTS}u + part] = o{c} * scale;
  #end
  if part == 0u { lse[at] = m + log(sum); }
}
