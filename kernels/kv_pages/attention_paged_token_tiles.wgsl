// Paged attention of single rows, for GPUs, as in a decode: a workgroup owns a row, HEADS query heads of one key/value head,
// and of the row's tokens the SPLIT of one split, which it takes THREADS at a time. A thread has a token for the scores; for
// the values it has one vector of o, of every GROUPS-th head. All sums have the order of attention_forward_tiles.wgsl, so a
// row has the same bits there; the splits depend on positions alone. A row's first tokens may have been added before, by
// attention_paged_shared_tiles.wgsl: it goes on from the sums of the split that they end in.
//
//   s[r, h, t] = soft_cap(scale · q[r, h] · key t of slots[r])        t in first_seen(positions[r]) … positions[r]
//   o[r, h] = Σ_t exp(s[r, h, t] − top) · value t / Σ_t exp(s[r, h, t] − top)
//
//   params      rows N, heads H, kv_heads K, slot_pages P, scale; first_row of the dispatch, part_rows M; splits, 1: o is
//               written; is_shared: 1, or 0 without `shared_tokens`
//   q           [N, H, D]     f32   in
//   k_pages     [·, K, 32, D] f32 or f16   in
//   v_pages     [·, K, 32, D] f32 or f16   in
//   page_table  [S, P]        u32   in
//   slots       [N]           u32   in, 0xffffffff: inactive, o is zeros
//   positions   [N]           u32   in
//   shared_tokens [N]         u32   in: first tokens that have been added, a multiple of 32
//   parts       [splits, M, H, D + 4] f32   in and out, with more than one split: o not yet divided, top, its denominator
//   o           [N, H, D]     f32   out, with one split
//
// Dispatch: M × K · ceil(H / K / HEADS) × the most splits of a row with tokens to add; a template for unroll.ts.
// `visibility.wgsl` is linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 1; Kwon et al., "PagedAttention" (2023).

struct Params {
  rows: u32, heads: u32, kv_heads: u32, slot_pages: u32, scale: f32,
  first_row: u32, part_rows: u32, splits: u32, is_shared: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_pages: array<Packed>;
@group(0) @binding(3) var<storage, read> v_pages: array<Packed>;
@group(0) @binding(4) var<storage, read> page_table: array<u32>;
@group(0) @binding(5) var<storage, read> slots: array<u32>;
@group(0) @binding(6) var<storage, read> positions: array<u32>;
@group(0) @binding(7) var<storage, read> shared_tokens: array<u32>;
@group(0) @binding(8) var<storage, read_write> parts: array<vec4<f32>>;
@group(0) @binding(9) var<storage, read_write> o: array<vec4<f32>>;

const LOWEST = -3.0e38;
const NO_TOP = -1.0e30;
const NO_SLOT = 0xffffffffu;
const THREADS = {THREADS}u;
const BLOCK = 32u;

var<workgroup> q_head: array<array<vec4<f32>, {D4}>, {HEADS}>;
var<workgroup> place: array<u32, {THREADS}>;
// 4 numbers of padding keep heads in different banks.
var<workgroup> p: array<array<f32, {THREADS+4}>, {HEADS}>;
// The largest score of each block of 32 tokens.
var<workgroup> tops: array<array<f32, {BLOCKS}>, {HEADS}>;

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = params.first_row + group.x;
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let chunk = group.y % chunks * {HEADS}u;
  let first_head = row * params.heads + kv * group_heads;
  let slot = slots[row];
  if slot == NO_SLOT {
    for (var x = thread; x < min({HEADS}u, group_heads - chunk) * {D4}u; x += THREADS) {
      if params.splits == 1u { o[(first_head + chunk) * {D4}u + x] = vec4<f32>(); }
    }
    return;
  }
  let last = positions[row];
  let begin = first_seen(last);
  var added = 0u;
  if params.is_shared == 1u { added = shared_tokens[row]; }
  let split = added / {SPLIT}u + group.z;
  let seen = max(split * {SPLIT}u, first_block(last, BLOCK));
  let start = max(seen, added);
  let end = min(last + 1u, split * {SPLIT}u + {SPLIT}u);
  if start >= end { return; }
  let parts_at = ((split * params.part_rows + group.x) * params.heads + kv * group_heads + chunk) * ({D4}u + 1u);

  for (var x = thread; x < {HEADS*D4}u; x += THREADS) {
    q_head[x / {D4}u][x % {D4}u] = q[(first_head + min(chunk + x / {D4}u, group_heads - 1u)) * {D4}u + x % {D4}u];
  }
  #for h HEADS
  var m{h} = NO_TOP;
  #end
  let column = thread % {D4}u;
  let own = thread / {D4}u;
  #for n OWN
  var top{n} = NO_TOP;
  var sum{n} = 0.0;
  var o{n} = vec4<f32>();
  #end
  if seen < added {
    #for h HEADS
    m{h} = parts[parts_at + min({h}u, group_heads - 1u - chunk) * ({D4}u + 1u) + {D4}u].x;
    #end
    #for n OWN
    {
      let at = parts_at + min(own + {n*GROUPS}u, min({HEADS}u, group_heads - chunk) - 1u) * ({D4}u + 1u);
      top{n} = parts[at + {D4}u].x;
      sum{n} = parts[at + {D4}u].y;
      o{n} = parts[at + column];
    }
    #end
    // All threads have read the sums before any of them writes new ones.
    storageBarrier();
  }

  for (var base = start; base < end; base += THREADS) {
    workgroupBarrier();
    let token = min(base + thread, last);
    let page = page_table[slot * params.slot_pages + token / PAGE_TOKENS];
    let key = ((page * params.kv_heads + kv) * PAGE_TOKENS + token % PAGE_TOKENS) * {D4}u;
    place[thread] = key;
    #for h HEADS
    var s{h} = 0.0;
    #end
    for (var d = 0u; d < {D4}u; d++) {
      let k = unpack_four(k_pages[key + d]);
      #for h HEADS
      {
        let left = q_head[{h}][d];
        s{h} = fma(left.w, k.w, fma(left.z, k.z, fma(left.y, k.y, fma(left.x, k.x, s{h}))));
      }
      #end
    }
    #for h HEADS
    s{h} = select(LOWEST, soft_cap(s{h} * params.scale), sees(begin, last, base + thread));
    p[{h}][thread] = s{h};
    #end
    workgroupBarrier();
    if thread < {HEADS*BLOCKS}u {
      var top = LOWEST;
      let b = thread % {BLOCKS}u;
      // Blocks begin in the same bank, so each has a first number of its own.
      for (var x = 0u; x < BLOCK; x++) { top = max(top, p[thread / {BLOCKS}u][b * BLOCK + (x + b) % BLOCK]); }
      tops[thread / {BLOCKS}u][b] = top;
    }
    workgroupBarrier();
    #for h HEADS
    {
      var own_top = m{h};
      #for b BLOCKS
      m{h} = max(m{h}, tops[{h}][{b}]);
      if {b}u == thread / BLOCK { own_top = m{h}; }
      #end
      p[{h}][thread] = exp(s{h} - own_top);
    }
    #end
    workgroupBarrier();

    if own < {GROUPS}u {
      for (var b = 0u; b < {BLOCKS}u && base + b * BLOCK < end; b++) {
        #for n OWN
        {
          let head = min(own + {n*GROUPS}u, {HEADS}u - 1u);
          let before = top{n};
          top{n} = max(before, tops[head][b]);
          let keep = exp(before - top{n});
          sum{n} *= keep;
          o{n} *= keep;
        }
        #end
        for (var x = b * BLOCK; x < b * BLOCK + BLOCK; x++) {
          let v = unpack_four(v_pages[place[x] + column]);
          #for n OWN
          {
            let weight = p[min(own + {n*GROUPS}u, {HEADS}u - 1u)][x];
            sum{n} += weight;
            o{n} = fma(vec4<f32>(weight), v, o{n});
          }
          #end
        }
      }
    }
  }

  #for n OWN
  if own < {GROUPS}u && own + {n*GROUPS}u < {HEADS}u && chunk + own + {n*GROUPS}u < group_heads {
    let at = first_head + chunk + own + {n*GROUPS}u;
    if params.splits == 1u {
      o[at * {D4}u + column] = o{n} * (1.0 / sum{n});
    } else {
      let to = parts_at + (own + {n*GROUPS}u) * ({D4}u + 1u);
      parts[to + column] = o{n};
      if column == 0u { parts[to + {D4}u] = vec4<f32>(top{n}, sum{n}, 0.0, 0.0); }
    }
  }
  #end
}
