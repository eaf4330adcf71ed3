// Paged attention for software adapters, second of two kernels: the tokens that a row does not share with the rows of
// its subgroup. A subgroup owns one row and one key/value head: its lanes are the tokens of a block for the scores and
// the vectors of o for the values, so that each element of the pages is loaded once for HEADS heads.
//
// The formula and the order of the sums are those of attention_paged_shared_lanes.wgsl, which ran before. With CONTINUES 0 it did
// not: then a row is alone in its call, and all its tokens are its own.
//
//   params      rows N, heads H, kv_heads K, slot_pages P, scale
//   q           [N, H, D]     f32   in
//   k_pages     [·, K, 32, D] f32 or f16   in
//   v_pages     [·, K, 32, D] f32 or f16   in
//   page_table  [S, P]        u32   in
//   slots       [N]           u32   in, 0xffffffff: inactive
//   positions   [N]           u32   in
//   o           [N, H, D]     f32   in and out in rows that continue; with CONTINUES 0 overwritten
//   state       [N, H, 2]     f32   in: top and Σ exp(s − top) of the shared tokens; with CONTINUES 0 not read
//
// Dispatch: ceil(N / LANES) × K · ceil(H / K / HEADS) × min(N, LANES) workgroups; a template for unroll.ts.
// `visibility.wgsl` and the broadcasts of lanes are linked.
// Source: Dao, "FlashAttention-2" (2023), algorithm 1; Kwon et al., "PagedAttention" (2023).

@group(0) @binding(7) var<storage, read_write> o: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> state: array<vec2<f32>>;

@compute @workgroup_size({LANES})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let first = group.x * {LANES}u;
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  let chunk = group.y % chunks * {HEADS}u;

  var shared_end = 0u;
  if {CONTINUES}u == 1u {
    let lane_slot = slot_of(first + lane);
    shared_end = shared_tokens(lane, lane_slot, tokens_of(first + lane, lane_slot)).x;
  }
  let row = first + group.z;
  let slot = slot_of(row);
  let tokens = tokens_of(row, slot);
  if {CONTINUES}u == 1u && tokens <= shared_end { return; }
  // Without tokens no key is in range.
  let place = max(tokens, 1u) - 1u;
  let begin = first_seen(place);

  #for h HEADS
  let at{h} = row * params.heads + kv * group_heads + min(chunk + {h}u, group_heads - 1u);
  var before{h} = vec2<f32>(LOWEST, 0.0);
  if {CONTINUES}u == 1u { before{h} = state[at{h}]; }
  var m{h} = before{h}.x;
  var sum{h} = before{h}.y;
  #for d D4
  let q{h}_{d} = q[at{h} * {D4}u + {d}u] * params.scale;
  #end
  #for c CHUNKS
  var o{h}_{c} = vec4<f32>();
  if {CONTINUES}u == 1u { o{h}_{c} = o[at{h} * {D4}u + min({c}u * {LANES}u + lane, {D4}u - 1u)]; }
  #end
  #end

  for (var base = max(shared_end, first_block(place, {LANES}u)); base < tokens; base += {LANES}u) {
    let key = token_at(slot, min(base + lane, place), kv);
    #for h HEADS
    var s{h} = 0.0;
    #end
    #for d D4
    {
      let k_d = unpack_four(k_pages[key + {d}u]);
      #for h HEADS
      s{h} += dot(q{h}_{d}, k_d);
      #end
    }
    #end
    #for h HEADS
    s{h} = select(LOWEST, soft_cap(s{h}), sees(begin, place, base + lane));
    var top{h} = m{h};
    #for l LANES
    top{h} = max(top{h}, broadcast_f32_{l}(s{h}));
    #end
    let keep{h} = exp(m{h} - top{h});
    let p{h} = exp(s{h} - top{h});
    m{h} = top{h};
    sum{h} *= keep{h};
    #for l LANES
    let p{h}_{l} = broadcast_f32_{l}(p{h});
    sum{h} += p{h}_{l};
    #end
    #end

    #for l LANES
    let key{l} = broadcast_u32_{l}(key);
    #end
    #for c CHUNKS
    {
      let vector = min({c}u * {LANES}u + lane, {D4}u - 1u);
      #for h HEADS
      var x{h} = o{h}_{c} * keep{h};
      #end
      #for l LANES
      let v_{l} = unpack_four(v_pages[key{l} + vector]);
      #for h HEADS
      x{h} += p{h}_{l} * v_{l};
      #end
      #end
      #for h HEADS
      o{h}_{c} = x{h};
      #end
    }
    #end
  }

  #for h HEADS
  let scale{h} = select(1.0 / sum{h}, 0.0, tokens == 0u);
  #for c CHUNKS
  if {c}u * {LANES}u + lane < {D4}u {
    o[at{h} * {D4}u + {c}u * {LANES}u + lane] = o{h}_{c} * scale{h};
  }
  #end
  #end
}
