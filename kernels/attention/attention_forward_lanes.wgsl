// Packed attention, forward, for software adapters: the lanes of a subgroup are consecutive rows of one segment, and a
// lane owns all HEADS query heads of its row. Each lane loads one key of a block, and broadcasts share it: an element
// of K and V is loaded once for LANES rows and HEADS heads. No barrier, no shared memory; all accumulators are named.
//
//   s[i, h, j] = soft_cap(scale · q[i, h] · k[j, kv(h)])        j: the keys that row i sees
//   o[i, h] = Σ_j exp(s[i, h, j] − lse[i, h]) · v[j, kv(h)]        lse[i, h] = log Σ_j exp s[i, h, j]
//
// The sums run over blocks of LANES keys counted from the first one, prefix and segment as one run, with the maximum so
// far subtracted and corrected once per block: a row's bits depend on its own keys only, not on where its prefix ends,
// and are those of attention_paged_shared_lanes.wgsl.
//
//   params  rows N, heads H, kv_heads K, scale
//   q       [N, H, D] f32   in
//   k, v    [N, K, D] f32   in
//   rows    [N, 4]    u32   in: prefix_start, prefix_length, own_start, subtree_end
//   o       [N, H, D] f32   out, overwritten
//   lse     [N, H]    f32   out, overwritten; the backward pass needs it
//
// Dispatch: ceil(N / THREADS) × K · ceil(H / K / HEADS) workgroups; a template for unroll.ts.
// `visibility.wgsl` and the broadcasts of lanes are linked, and `attention_block_lanes.wgsl` is inserted.
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

fn key_vector(at: u32) -> vec4<f32> { return k[at]; }
fn value_vector(at: u32) -> vec4<f32> { return v[at]; }

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  hide_lanes(params.rows == 0xffffffffu);
  let lane = thread % {LANES}u;
  let first = group.x * {THREADS}u + thread - lane;
  let i = first + lane;
  let last = params.rows - 1u;
  let row = min(i, last);
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  // If HEADS does not divide the group, a thread computes its last head twice and writes the same numbers again.
  let chunk = group.y % chunks * {HEADS}u;

  let span = rows[row];
  let tile = broadcast_vec4u_0(span);
  // A row of padding sees only itself.
  let place = place_of(tile, i);
  let begin = select(place, first_seen(place), span.z == tile.z);
  let end = place_of(tile, first) + {LANES}u;

  #for h HEADS
  let at{h} = row * params.heads + kv * group_heads + min(chunk + {h}u, group_heads - 1u);
  var m{h} = LOWEST;
  var sum{h} = 0.0;
  #for d D4
  let q{h}_{d} = q[at{h} * {D4}u + {d}u] * params.scale;
  var o{h}_{d} = vec4<f32>();
  #end
  #end

  for (var base = first_block(place_of(tile, first), {LANES}u); base < end; base += {LANES}u) {
    let j = base + lane;
    let key_row = row_of_key(tile, j);
    let key = (min(key_row, last) * params.kv_heads + kv) * {D4}u;

    #insert block
  }

  if i > last { return; }
  #for h HEADS
  let scale{h} = 1.0 / sum{h};
  #for d D4
  o[at{h} * {D4}u + {d}u] = o{h}_{d} * scale{h};
  #end
  lse[at{h}] = m{h} + log(sum{h});
  #end
}
