// Paged attention for software adapters, first of two kernels: the tokens whose pages LANES consecutive rows share.
// Lanes are rows, as in attention_forward_lanes.wgsl: one key to a lane, broadcast, all HEADS heads of a row in a lane.
// A row that has no other tokens is finished here; the others continue in attention_paged_own_lanes.wgsl.
//
//   s[r, h, t] = soft_cap(scale · q[r, h] · key t of slots[r])        t in first_seen(positions[r]) … positions[r]
//   o[r, h] = Σ_t exp(s[r, h, t] − top) · value t / Σ_t exp(s[r, h, t] − top)
//
// Both kernels take the same steps in the same order (blocks of LANES tokens from token 0), so that a row's bits do
// not depend on which of them handles which block, and so not on adjacent rows.
//
//   params      rows N, heads H, kv_heads K, slot_pages P, scale
//   q           [N, H, D]     f32   in
//   k_pages     [·, K, 32, D] f32 or f16   in
//   v_pages     [·, K, 32, D] f32 or f16   in
//   page_table  [S, P]        u32   in
//   slots       [N]           u32   in, 0xffffffff: inactive, o is zeros
//   positions   [N]           u32   in
//   o           [N, H, D]     f32   out, overwritten; not yet divided in rows that continue
//   state       [N, H, 2]     f32   out, overwritten in rows that continue: top and Σ exp(s − top)
//
// Dispatch: ceil(N / THREADS) × K · ceil(H / K / HEADS) workgroups; a template for unroll.ts.
// `visibility.wgsl` and the broadcasts of lanes are linked, and `attention_block_lanes.wgsl` is inserted.
// Source: Dao, "FlashAttention-2" (2023), algorithm 1; Kwon et al., "PagedAttention" (2023).

@group(0) @binding(7) var<storage, read_write> o: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> state: array<vec2<f32>>;

fn key_vector(at: u32) -> vec4<f32> { return unpack_four(k_pages[at]); }
fn value_vector(at: u32) -> vec4<f32> { return unpack_four(v_pages[at]); }

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  hide_lanes(params.rows == 0xffffffffu);
  let lane = thread % {LANES}u;
  let r = group.x * {THREADS}u + thread;
  let row = min(r, params.rows - 1u);
  let group_heads = params.heads / params.kv_heads;
  let chunks = (group_heads + {HEADS}u - 1u) / {HEADS}u;
  let kv = group.y / chunks;
  // If HEADS does not divide the group, a thread computes its last head twice and writes the same numbers again.
  let chunk = group.y % chunks * {HEADS}u;

  let slot = slot_of(r);
  let tokens = tokens_of(r, slot);
  let shared_by = shared_tokens(lane, slot, tokens);
  let shared_end = shared_by.x;
  let place = tokens - 1u;
  let begin = first_seen(place);

  #for h HEADS
  let at{h} = row * params.heads + kv * group_heads + min(chunk + {h}u, group_heads - 1u);
  var m{h} = LOWEST;
  var sum{h} = 0.0;
  #for d D4
  let q{h}_{d} = q[at{h} * {D4}u + {d}u] * params.scale;
  var o{h}_{d} = vec4<f32>();
  #end
  #end

  for (var base = subgroup_min(first_block(place, {LANES}u)); base < shared_end; base += {LANES}u) {
    let key = token_at(shared_by.y, min(base + lane, shared_end - 1u), kv);
    #insert block
  }

  if r >= params.rows { return; }
  let goes_on = tokens > shared_end;
  let has_tokens = tokens > 0u;
  #for h HEADS
  let scale{h} = select(1.0 / sum{h}, 1.0, goes_on);
  #for d D4
  o[at{h} * {D4}u + {d}u] = select(vec4<f32>(), o{h}_{d} * scale{h}, has_tokens);
  #end
  if goes_on { state[at{h}] = vec2<f32>(m{h}, sum{h}); }
  #end
}
