// Paged attention for GPUs: a workgroup owns a row and HEADS query heads of one key/value head and iterates over the
// row's tokens THREADS at a time. A thread is a token for the scores; for the values it is one vector of o and one of
// SPLITS parts of the tokens, so that neighbours read neighbours and a thread holds HEADS vectors of o only. The parts
// are added in workgroup memory at the end.
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
// Dispatch: N × K · ceil(H / K / HEADS) workgroups; a template for unroll.ts.
// `visibility.wgsl` is linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 1; Kwon et al., "PagedAttention" (2023).

struct Params { rows: u32, heads: u32, kv_heads: u32, slot_pages: u32, scale: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> q: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> k_pages: array<Packed>;
@group(0) @binding(3) var<storage, read> v_pages: array<Packed>;
@group(0) @binding(4) var<storage, read> page_table: array<u32>;
@group(0) @binding(5) var<storage, read> slots: array<u32>;
@group(0) @binding(6) var<storage, read> positions: array<u32>;
@group(0) @binding(7) var<storage, read_write> o: array<vec4<f32>>;

const LOWEST = -3.0e38;
const NO_SLOT = 0xffffffffu;
const THREADS = {THREADS}u;
// Parts into which the tokens are divided for the values.
const SPLITS = THREADS / {D4}u;
// Threads that reduce one head's scores, in two steps.
const REDUCERS = 16u;

var<workgroup> q_head: array<vec4<f32>, {HEADS}u * {D4}u>;
var<workgroup> place: array<u32, THREADS>;
var<workgroup> p: array<f32, {HEADS}u * THREADS>;
var<workgroup> best: array<f32, {HEADS}u * REDUCERS>;
var<workgroup> share: array<vec4<f32>, THREADS>;
var<workgroup> sum_of: array<f32, THREADS>;

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let row = group.x;
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let chunk = group.y % chunks * {HEADS}u;
  #for h HEADS
  let at{h} = (row * params.heads + kv * group_heads + min(chunk + {h}u, group_heads - 1u)) * {D4}u;
  #end

  let slot = slots[row];
  if slot == NO_SLOT {
    #for h HEADS
    for (var d = thread; d < {D4}u; d += THREADS) { o[at{h} + d] = vec4<f32>(); }
    #end
    return;
  }
  let last = positions[row];
  let tokens = last + 1u;
  let begin = first_seen(last);
  #for h HEADS
  for (var d = thread; d < {D4}u; d += THREADS) { q_head[{h}u * {D4}u + d] = q[at{h} + d] * params.scale; }
  var m{h} = LOWEST;
  var sum{h} = 0.0;
  var o{h} = vec4<f32>();
  #end

  for (var base = first_block(last, THREADS); base < tokens; base += THREADS) {
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
      s{h} += dot(q_head[{h}u * {D4}u + d], k);
      #end
    }
    #for h HEADS
    s{h} = select(LOWEST, soft_cap(s{h}), sees(begin, last, base + thread));
    p[{h}u * THREADS + thread] = s{h};
    #end
    workgroupBarrier();

    if thread < {HEADS}u * REDUCERS {
      let from_score = thread / REDUCERS * THREADS + thread % REDUCERS;
      var top = LOWEST;
      for (var x = 0u; x < THREADS; x += REDUCERS) { top = max(top, p[from_score + x]); }
      best[thread] = top;
    }
    workgroupBarrier();
    #for h HEADS
    {
      var top = m{h};
      for (var x = 0u; x < REDUCERS; x++) { top = max(top, best[{h}u * REDUCERS + x]); }
      let keep = exp(m{h} - top);
      let p_token = exp(s{h} - top);
      m{h} = top;
      sum{h} = sum{h} * keep + p_token;
      o{h} *= keep;
      p[{h}u * THREADS + thread] = p_token;
    }
    #end
    workgroupBarrier();

    if thread < SPLITS * {D4}u {
      for (var x = thread / {D4}u; x < min(THREADS, tokens - base); x += SPLITS) {
        let v = unpack_four(v_pages[place[x] + thread % {D4}u]);
        #for h HEADS
        o{h} += p[{h}u * THREADS + x] * v;
        #end
      }
    }
  }

  #for h HEADS
  workgroupBarrier();
  share[thread] = o{h};
  sum_of[thread] = sum{h};
  workgroupBarrier();
  if thread < {D4}u {
    var x{h} = vec4<f32>();
    for (var split = 0u; split < SPLITS; split++) { x{h} += share[split * {D4}u + thread]; }
    var denominator{h} = 0.0;
    for (var x = 0u; x < THREADS; x++) { denominator{h} += sum_of[x]; }
    o[at{h} + thread] = x{h} / denominator{h};
  }
  #end
}
