// Queries, keys and values from the sums of their chunks, for GPUs: the low-rank term, the bias, the norm of each head, its
// rotation, and the writing of keys and values into their pages.
//
//   u[n, r] = lora_scale · Σ_k a_k[n, u_column + r]
//   x[n, h, d] = Σ_k s_k[n, h, d] + Σ_r u[n, r] · B[h·D + d, r] (+ bias[h·D + d])        for q, k and v
//   q, k: normalised by head as in rms_norm_forward_tiles.wgsl, if there is a norm, then rotated as in rope.wgsl
//
//   params    rows N; of q, k and v: heads, place and chunks of s, items of u, 0 without a low-rank term, the first one
//             in a, the first vectors of B, bias and gamma, 0xffffffff without; place and chunks of a, and its items;
//             lora_scale; width D; eps; rotates: 1 with a rotation
//   sums      s of q, k and v, and a   in, see segment_sums.wgsl
//   lora      B of each [heads · D, R] f32   in
//   vectors   biases [heads · D] and gammas [D]   f32   in
//   cosines   [T, D/2] f32              in
//   sines     [T, D/2] f32              in
//   places    [N, 2] u32                in, a row's position, and its first token in the pages or 0xffffffff
//   q         [N, H, D] f32             out, overwritten
//   k_pages   [·, K, 32, D] f32 or f16  out, overwritten where a row lies
//   v_pages   [·, K, 32, D] f32 or f16  out, overwritten where a row lies
//
// A workgroup owns a head of a row, a thread four numbers of it. `adjacent`, `item_squares`, `group_sum`, `threads`,
// `MAX_RANK4`, `PAGE_TOKENS` and `pack_four` are linked.
// Dispatch: (H + 2 K) × N workgroups; a template for unroll.ts.

struct Params {
  rows: u32,
  #for s 3
  heads{s}: u32, place{s}: u32, chunks{s}: u32, rank_items{s}: u32, u_first{s}: u32,
  lora_place{s}: u32, bias{s}: u32, gamma{s}: u32,
  #end
  u_place: u32, u_chunks: u32, u_items: u32, lora_scale: f32, width: u32, eps: f32, rotates: u32,
}

struct Part {
  index: u32, head: u32, heads: u32, place: u32, chunks: u32, rank_items: u32, u_first: u32,
  lora_place: u32, bias: u32, gamma: u32,
}

const NONE = 0xffffffffu;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> vectors: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> cosines: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> sines: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read> places: array<vec2<u32>>;
@group(0) @binding(7) var<storage, read_write> q: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> k_pages: array<Packed>;
@group(0) @binding(9) var<storage, read_write> v_pages: array<Packed>;

var<workgroup> u: array<vec4<f32>, MAX_RANK4>;
var<workgroup> head: array<vec4<f32>, {D4}>;

fn part_of(index: u32) -> Part {
  var part = Part();
  var first = 0u;
  #for s 3
  if index >= first {
    part = Part(
      {s}u, index - first, params.heads{s}, params.place{s}, params.chunks{s}, params.rank_items{s}, params.u_first{s},
      params.lora_place{s}, params.bias{s}, params.gamma{s},
    );
  }
  first += params.heads{s};
  #end
  return part;
}

// Four numbers of a head after its rotation: the pairs are (i, i + D/2), or (2i, 2i + 1) where they are `adjacent`.
fn rotated(v: vec4<f32>, thread: u32, position: u32) -> vec4<f32> {
  if adjacent {
    let cosine = cosines[position * {D4}u + thread];
    let sine = sines[position * {D4}u + thread];
    return vec4<f32>(
      fma(v.x, cosine.x, -(v.y * sine.x)),
      fma(v.y, cosine.x, v.x * sine.x),
      fma(v.z, cosine.y, -(v.w * sine.y)),
      fma(v.w, cosine.y, v.z * sine.y),
    );
  }
  let other = head[(thread + {D4/2}u) % {D4}u];
  let entry = position * {D4}u + 2u * (thread % {D4/2}u);
  let cosine = vec4<f32>(cosines[entry], cosines[entry + 1u]);
  let sine = vec4<f32>(sines[entry], sines[entry + 1u]);
  if thread < {D4/2}u { return fma(v, cosine, -(other * sine)); }
  return fma(v, cosine, other * sine);
}

@compute @workgroup_size(threads)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let part = part_of(group.x);
  let n = group.y;
  for (var r = thread; r < part.rank_items; r += threads) {
    let first = params.u_place + n * params.u_items + part.u_first + r;
    u[r] = operand(params.lora_scale * chunk_sum(first, params.rows * params.u_items, params.u_chunks));
  }
  workgroupBarrier();
  let i = part.head * {D4}u + thread;
  let is_item = thread < {D4}u;
  var v = vec4<f32>();
  if is_item {
    let items = part.heads * {D4}u;
    v = chunk_sum(part.place + n * items + i, params.rows * items, part.chunks);
    if part.rank_items > 0u {
      var z = vec4<f32>();
      for (var r = 0u; r < part.rank_items; r++) {
        let b = part.lora_place + 4u * i * part.rank_items + r;
        z = add_low_rank(z, u[r], low_rank_at(b, part.rank_items));
      }
      v += z;
    }
    if part.bias != NONE { v = v + vectors[part.bias + i]; }
  }
  if part.gamma != NONE {
    let total = group_sum(thread, item_squares(v, 0.0));
    let scale = inverseSqrt(total / f32(params.width) + params.eps);
    if is_item { v = v * scale * vectors[part.gamma + thread]; }
  }
  let place = places[n];
  if params.rotates == 1u && part.index < 2u {
    if is_item { head[thread] = v; }
    workgroupBarrier();
    if is_item { v = rotated(v, thread, place.x); }
  }
  if !is_item { return; }
  if part.index == 0u {
    q[n * part.heads * {D4}u + i] = v;
    return;
  }
  if place.y == NONE { return; }
  let at = (place.y + part.head * PAGE_TOKENS) * {D4}u + thread;
  if part.index == 1u { k_pages[at] = pack_four(v); } else { v_pages[at] = pack_four(v); }
}
