// Packed attention, backward to q, for GPUs: rows, heads and threads are laid out as in attention_forward_tiles.wgsl, and the
// scores have the same bits. The files that are inserted say how.
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

const BLOCK = 32u;

// Queries, then the weights of 4 rows; keys, then values. 9 numbers instead of 8 keep neighbours in different banks.
var<workgroup> a_tile: array<array<array<vec4<f32>, 9>, {G}>, 4>;
var<workgroup> b_tile: array<array<array<vec4<f32>, 9>, {KG}>, {KT}>;

// A thread's 4 rows: the place of the first one, how many are stored, and a bit for each one of padding, which sees only
// itself.
struct OwnRows { place: u32, stored: u32, padding: u32 }

fn is_stored(own: OwnRows, i: u32) -> bool { return i < own.stored; }

fn is_seen(own: OwnRows, i: u32, key: u32) -> bool {
  let place = own.place + i;
  return sees(select(first_seen(place), place, ((own.padding >> i) & 1u) == 1u), place, key);
}

// What a workgroup works on: its key/value head, and the span of its segment.
struct Tile { kv: u32, span: vec4<u32> }

// The index of the first vector of the key at a place.
fn token_at(tile: Tile, place: u32) -> u32 {
  return (min(row_of_key(tile.span, place), params.rows - 1u) * params.kv_heads + tile.kv) * {D4}u;
}

fn left0(at: u32) -> vec4<f32> { return q[at]; }
fn right0(at: u32) -> vec4<f32> { return k[at]; }
fn left1(at: u32) -> vec4<f32> { return d_o[at]; }
fn right1(at: u32) -> vec4<f32> { return v[at]; }
fn summed0(at: u32) -> vec4<f32> { return k[at]; }

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let g = thread / {KG}u;
  let kg = thread % {KG}u;
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let first = group.x * {ROWS}u;
  let last = params.rows - 1u;
  let tile = Tile(kv, rows[first]);

  // The vector and the row that the thread stages, and the index of that row's query. Rows and heads after the last are
  // read from where the buffer has other numbers, and not stored.
  let left_step = params.heads * {D4}u;
  let lane = min(thread % 8u, {CW}u - 1u);
  let load = thread / 8u;
  let head = kv * group_heads + group.y % chunks * {HEADS}u;
  let left_at = (first + load % {ROWS}u) * left_step + (head + load / {ROWS}u) * {D4}u;

  // The thread's rows of one head.
  let row = first + 4u * g % {ROWS}u;
  let own_head = head + 4u * g / {ROWS}u;
  let is_head = own_head < (kv + 1u) * group_heads;
  let own = row * left_step + own_head * {D4}u + kg;
  let first_place = place_of(tile.span, first);
  var own_rows = OwnRows(place_of(tile.span, row), select(0u, params.rows - min(row, params.rows), is_head), 0u);
  #for i 4
  own_rows.padding |= select(0u, 1u << {i}u, rows[min(row + {i}u, last)].z != tile.span.z);
  #end
  let is_segment = first + {ROWS}u <= params.rows && rows[min(first + {ROWS}u - 1u, last)].z == tile.span.z;

  var lse_of = vec4<f32>();
  var delta_of = vec4<f32>();
  #for i 4
  lse_of[{i}] = lse[min(row + {i}u, last) * params.heads + own_head];
  delta_of[{i}] = delta[min(row + {i}u, last) * params.heads + own_head];
  #end
  let column_from = 0u;
  var sum = vec4<f32>();
  #for n V_STAGES
  #for i 4
  var o0_{i}_{n} = vec4<f32>();
  #end
  #end
  let end = first_place + {ROWS}u;
  for (var base = first_block(first_place, BLOCK); base < end; base += BLOCK) {
    let is_masked = !is_segment || window > 0u || base + BLOCK > first_place;
    let quads = (min(end - base, BLOCK) + 3u) / 4u;
    #for n K_LOADS
    let right_at{n} = token_at(tile, base + load + {n*LOADERS}u);
    #end
    #insert products
    #for t KT
    #for i 4
    let capped{i}_{t} = soft_cap(s0_{i}_{t} * params.scale);
    let d_capped{i}_{t} = exp(capped{i}_{t} - lse_of[{i}]) * (s1_{i}_{t} - delta_of[{i}]);
    var w0_{i}_{t} = soft_cap_gradient(d_capped{i}_{t}, capped{i}_{t});
    if is_masked { w0_{i}_{t} = select(0.0, w0_{i}_{t}, is_seen(own_rows, {i}u, base + {t*KG}u + kg)); }
    #end
    #end
    #insert sums
  }

  #for i 4
  if is_stored(own_rows, {i}u) {
    #for n V_STAGES
    if {n*KG}u + select(kg, 0u, {D4%KG} == 0) < {D4}u {
      d_q[own + {i}u * left_step + {n*KG}u] = o0_{i}_{n} * params.scale;
    }
    #end
  }
  #end
}
