// Paged attention of many rows of few sequences, for GPUs, as in a prefill: a workgroup owns ROWS rows and HEADS query heads
// of one key/value head. It goes through the runs of rows with the same slot, and for each through the slot's pages, as
// attention_forward_tiles.wgsl goes through packed rows: a row has the same bits there. Rows of other runs see nothing.
//
//   s[r, h, t] = soft_cap(scale · q[r, h] · key t of slots[r])        t in first_seen(positions[r]) … positions[r]
//   o[r, h] = Σ_t exp(s[r, h, t] − top) · value t / Σ_t exp(s[r, h, t] − top)
//
//   params      rows N, heads H, kv_heads K, slot_pages P, scale
//   q           [N, H, D]     f32   in
//   k_pages     [·, K, 32, D] f32 or f16   in
//   v_pages     [·, K, 32, D] f32 or f16   in
//   page_table  [S, P]        u32   in
//   slots       [N]           u32   in, 0xffffffff: inactive, o is zeros
//   positions   [N]           u32   in
//   o           [N, H, D]     f32   out, overwritten
//
// Dispatch: ceil(N / ROWS) × K · ceil(H / K / HEADS) workgroups; a template for unroll.ts.
// `visibility.wgsl` and paged_tiles.wgsl are linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 1; Kwon et al., "PagedAttention" (2023).

struct Params { rows: u32, heads: u32, kv_heads: u32, slot_pages: u32, scale: f32 }

@group(0) @binding(7) var<storage, read_write> o: array<vec4<f32>>;

// The largest score and the denominator of the parts that were added.
var<workgroup> totals: array<array<vec4<f32>, 2>, {G}>;

fn store_lse(at: u32, value: f32) {}

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let g = thread / {KG}u;
  let kg = thread % {KG}u;
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let first = group.x * {ROWS}u;
  let stop = min(first + {ROWS}u, params.rows);

  // As in attention_forward_tiles.wgsl.
  let left_step = params.heads * {D4}u;
  let lane = min(thread % 8u, {CW}u - 1u);
  let load = thread / 8u;
  let head = kv * group_heads + group.y % chunks * {HEADS}u;
  let left_at = (first + load % {ROWS}u) * left_step + (head + load / {ROWS}u) * {D4}u;
  let row = first + 4u * g % {ROWS}u;
  let own_head = head + 4u * g / {ROWS}u;
  let is_head = own_head < (kv + 1u) * group_heads;
  let own = row * left_step + own_head * {D4}u + kg;

  let column_from = 0u;
  var m = vec4<f32>(NO_TOP);
  var sum = vec4<f32>();
  #for n V_STAGES
  #for i 4
  var o0_{i}_{n} = vec4<f32>();
  #end
  #end
  var run_stop = first;
  for (var run = first; run < stop; run = run_stop) {
    let slot = slots[run];
    var low = positions[run];
    var high = low;
    run_stop = run + 1u;
    while run_stop < stop && slots[run_stop] == slot {
      low = min(low, positions[run_stop]);
      high = max(high, positions[run_stop]);
      run_stop++;
    }
    var own_rows = OwnRows(row, 0u);
    #for i 4
    if is_head && run <= row + {i}u && row + {i}u < run_stop { own_rows.stored |= 1u << {i}u; }
    #end
    if slot == NO_SLOT {
      #for i 4
      if is_stored(own_rows, {i}u) {
        for (var d = kg; d < {D4}u; d += {KG}u) { o[own + {i}u * left_step + d - kg] = vec4<f32>(); }
      }
      #end
      continue;
    }
    if kg == 0u { totals[g] = array<vec4<f32>, 2>(vec4<f32>(NO_TOP), vec4<f32>()); }
    let start = first_block(low, BLOCK);
    let end = high + 1u;
    for (var base = start; base < end; base += BLOCK) {
      let is_masked = run_stop - run < {ROWS}u || window > 0u || base + BLOCK > low + 1u;
      let quads = (min(end - base, BLOCK) + 3u) / 4u;
      #for n K_LOADS
      let right_at{n} = token_at(slot, min(base + load + {n*LOADERS}u, high), kv);
      #end
      #insert products
      #insert softmax
      #insert sums
      #insert split
    }
  }
}
