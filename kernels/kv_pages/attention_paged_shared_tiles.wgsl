// Paged attention of single rows that share pages, for GPUs, as in a decode of groups with a common prompt: a workgroup
// owns a tile of up to ROWS adjacent rows, HEADS query heads of one key/value head, and of the shared tokens those of one
// split. It reads them once for all of its rows. attention_paged_token_tiles.wgsl adds each row's own tokens to the sums,
// and has the same order of all sums: a row has the same bits whatever it shares.
//
//   s[r, h, t] = soft_cap(scale · q[r, h] · key t of slots[r])        t in first_seen(positions[r]) … positions[r]
//   parts[p, r, h] = Σ_t exp(s[r, h, t] − top) · value t, top, Σ_t exp(s[r, h, t] − top)        t < shared_tokens[r], of split p
//
//   params      rows N, heads H, kv_heads K, slot_pages P, scale; first_row of the parts, part_rows M
//   q           [N, H, D]     f32   in
//   k_pages     [·, K, 32, D] f32 or f16   in
//   v_pages     [·, K, 32, D] f32 or f16   in
//   page_table  [S, P]        u32   in
//   slots       [N]           u32   in, 0xffffffff: inactive, left out
//   positions   [N]           u32   in
//   shared_tokens [N]         u32   in: first tokens that a row shares with its tile, a multiple of 32
//   tiles       [T, 2]        u32   in: first row, number of rows
//   parts       [splits, M, H, D + 4] f32   out: the shared tokens' part of the splits that have any
//
// Dispatch: T × K · ceil(H / K / HEADS) × splits workgroups; a template for unroll.ts.
// `visibility.wgsl` and paged_tiles.wgsl are linked.
// Source: Juravsky et al., "Hydragen" (2024); Dao, "FlashAttention-2" (2023), algorithm 1.

struct Params {
  rows: u32, heads: u32, kv_heads: u32, slot_pages: u32, scale: f32,
  first_row: u32, part_rows: u32,
}

@group(0) @binding(7) var<storage, read> shared_tokens: array<u32>;
@group(0) @binding(8) var<storage, read> tiles: array<vec2<u32>>;
@group(0) @binding(9) var<storage, read_write> parts: array<vec4<f32>>;

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let g = thread / {KG}u;
  let kg = thread % {KG}u;
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let first = tiles[group.x].x;
  let stop = min(first + tiles[group.x].y, params.rows);

  // A slot of the tile's active rows, and their least and their greatest position.
  var slot = NO_SLOT;
  var low = 0xffffffffu;
  var high = 0u;
  for (var r = first; r < stop; r++) {
    if slots[r] != NO_SLOT && positions[r] >= high {
      slot = slots[r];
      high = positions[r];
    }
    if slots[r] != NO_SLOT { low = min(low, positions[r]); }
  }
  if slot == NO_SLOT { return; }
  let start = max(group.z * {SPLIT}u, first_block(low, BLOCK));
  let end = min(min(shared_tokens[first], high + 1u), group.z * {SPLIT}u + {SPLIT}u);
  if start >= end { return; }

  // As in attention_forward_tiles.wgsl.
  let left_step = params.heads * {D4}u;
  let lane = min(thread % 8u, {CW}u - 1u);
  let load = thread / 8u;
  let head = kv * group_heads + group.y % chunks * {HEADS}u;
  let left_at = (first + load % {ROWS}u) * left_step + (head + load / {ROWS}u) * {D4}u;
  let row = first + 4u * g % {ROWS}u;
  let own_head = head + 4u * g / {ROWS}u;
  let is_head = own_head < (kv + 1u) * group_heads;
  var own_rows = OwnRows(row, 0u);
  #for i 4
  if is_head && row + {i}u < stop && slots[min(row + {i}u, stop - 1u)] != NO_SLOT &&
    row + {i}u - params.first_row < params.part_rows { own_rows.stored |= 1u << {i}u; }
  #end

  let column_from = 0u;
  var m = vec4<f32>(NO_TOP);
  var sum = vec4<f32>();
  #for n V_STAGES
  #for i 4
  var o0_{i}_{n} = vec4<f32>();
  #end
  #end
  for (var base = start; base < end; base += BLOCK) {
    let is_masked = window > 0u || base + BLOCK > low + 1u;
    let quads = (min(end - base, BLOCK) + 3u) / 4u;
    #for n K_LOADS
    let right_at{n} = token_at(slot, min(base + load + {n*LOADERS}u, high), kv);
    #end
    #insert products
    #insert softmax
    #insert sums
  }

  #for i 4
  if is_stored(own_rows, {i}u) {
    let at = (group.z * params.part_rows + row + {i}u - params.first_row) * params.heads + own_head;
    #for n V_STAGES
    if kg + {n*KG}u < {D4}u { parts[at * ({D4}u + 1u) + kg + {n*KG}u] = o0_{i}_{n}; }
    #end
    if kg == 0u { parts[at * ({D4}u + 1u) + {D4}u] = vec4<f32>(m[{i}], sum[{i}], 0.0, 0.0); }
  }
  #end
}
