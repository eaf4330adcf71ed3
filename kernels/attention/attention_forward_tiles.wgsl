// Packed attention, forward, for GPUs: a workgroup owns ROWS consecutive rows of one segment and HEADS query heads of
// one key/value head. It walks the keys in blocks. A thread has 4 rows of a head: of the scores those with every KG-th key
// of a block, of o every KG-th vector. Queries, keys and values are staged a part at a time, and the weights of a block
// meet in workgroup memory. The files that are inserted say how.
//
//   s[i, h, j] = soft_cap(scale · q[i, h] · k[j, kv(h)])        j: the keys that row i sees
//   o[i, h] = Σ_j exp(s[i, h, j] − lse[i, h]) · v[j, kv(h)]        lse[i, h] = log Σ_j exp s[i, h, j]
//
// The sums of SPLIT keys at a time are computed by themselves and added in order, as decoding adds those that several
// workgroups compute. o holds the sum so far, not yet divided.
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

// A score that is not seen, far below every maximum.
const LOWEST = -3.0e38;
const NO_TOP = -1.0e30;
const BLOCK = 32u;

// Queries, then the weights of 4 rows; keys, then values. 9 numbers instead of 8 keep neighbours in different banks.
var<workgroup> a_tile: array<array<array<vec4<f32>, 9>, {G}>, 4>;
var<workgroup> b_tile: array<array<array<vec4<f32>, 9>, {KG}>, {KT}>;
var<workgroup> tops: array<array<vec4<f32>, {KG}>, {G}>;

// The largest score and the denominator of the parts that were added.
var<workgroup> totals: array<array<vec4<f32>, 2>, {G}>;

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
fn summed0(at: u32) -> vec4<f32> { return v[at]; }
fn store_lse(at: u32, value: f32) { lse[at] = value; }

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

  let column_from = 0u;
  var m = vec4<f32>(NO_TOP);
  var sum = vec4<f32>();
  if kg == 0u { totals[g] = array<vec4<f32>, 2>(m, sum); }
  #for n V_STAGES
  #for i 4
  var o0_{i}_{n} = vec4<f32>();
  #end
  #end
  let start = first_block(first_place, BLOCK);
  let end = first_place + {ROWS}u;
  for (var base = start; base < end; base += BLOCK) {
    let is_masked = !is_segment || window > 0u || base + BLOCK > first_place;
    let quads = (min(end - base, BLOCK) + 3u) / 4u;
    #for n K_LOADS
    let right_at{n} = token_at(tile, base + load + {n*LOADERS}u);
    #end
    #insert products
    #insert softmax
    #insert sums
    #insert split
  }
}
