// Queries, keys and values from their projections, for software adapters: the bias, the norm of each head, its rotation, and
// the writing of keys and values into their pages. A thread owns a head of a row, so there is no barrier.
//
//   x[n, h, d] = p[n, h, d] (+ bias[h·D + d])        for the projections p of q, k and v
//   q, k: normalised by head as in rms_norm_forward_lanes.wgsl, if there is a norm, then rotated as in rope.wgsl
//
//   params    rows N; items of a head, D / 4; of q, k and v: heads, first vectors of bias and gamma, 0xffffffff without;
//             width D; eps
//   k, v      [N, K, D] f32             in, the projections
//   vectors   biases [heads · D] and gammas [D]   f32   in
//   cosines   [T, D/2] f32              in
//   sines     [T, D/2] f32              in
//   places    [N, 2] u32                in, a row's position, and its first token in the pages or 0xffffffff
//   q         [N, H, D] f32             in, the projection, and out
//   k_pages   [·, K, 32, D] f32 or f16  out, overwritten where a row lies
//   v_pages   [·, K, 32, D] f32 or f16  out, overwritten where a row lies
//
// PART (0 q, 1 k, 2 v, 3 all three), `rotates`, `adjacent`, `has_bias`, `threads`, `item_sum`, `PAGE_TOKENS` and `pack_four`
// are linked: a software adapter runs both sides of a branch, so a text has only what its heads need.
// Dispatch: a thread for each row and head of the part, wrapped into y.

struct Params {
  rows: u32, items: u32,
  heads0: u32, bias0: u32, gamma0: u32,
  heads1: u32, bias1: u32, gamma1: u32,
  heads2: u32, bias2: u32, gamma2: u32,
  width: u32, eps: f32,
}

// A head of a row: its projection (0 q, 1 k, 2 v), and its first vectors there, in the biases, the gammas and the pages.
struct Part { index: u32, first: u32, bias: u32, gamma: u32, page: u32 }

const NONE = 0xffffffffu;
const ALL = 3u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> k: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> v: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> vectors: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read> cosines: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read> sines: array<vec2<f32>>;
@group(0) @binding(6) var<storage, read> places: array<vec2<u32>>;
@group(0) @binding(7) var<storage, read_write> q: array<vec4<f32>>;
@group(0) @binding(8) var<storage, read_write> k_pages: array<Packed>;
@group(0) @binding(9) var<storage, read_write> v_pages: array<Packed>;

fn part_of(n: u32, index: u32, token: u32) -> Part {
  if PART == 0u || (PART == ALL && index < params.heads0) {
    return head_of(0u, n, index, params.heads0, params.bias0, params.gamma0, token);
  }
  let later = index - select(0u, params.heads0, PART == ALL);
  if PART == 1u || (PART == ALL && later < params.heads1) {
    return head_of(1u, n, later, params.heads1, params.bias1, params.gamma1, token);
  }
  let last = later - select(0u, params.heads1, PART == ALL);
  return head_of(2u, n, last, params.heads2, params.bias2, params.gamma2, token);
}

fn heads_of_part() -> u32 {
  if PART == 0u { return params.heads0; }
  if PART == 1u { return params.heads1; }
  if PART == 2u { return params.heads2; }
  return params.heads0 + params.heads1 + params.heads2;
}

fn is_of(part: Part, index: u32) -> bool { return PART == index || (PART == ALL && part.index == index); }

fn head_of(index: u32, n: u32, head: u32, heads: u32, bias: u32, gamma: u32, token: u32) -> Part {
  let items = params.items;
  return Part(
    index,
    (n * heads + head) * items,
    select(bias + head * items, NONE, bias == NONE),
    gamma,
    select((token + head * PAGE_TOKENS) * items, NONE, token == NONE),
  );
}

fn load(part: Part, i: u32) -> vec4<f32> {
  let at = part.first + i;
  var x: vec4<f32>;
  if is_of(part, 0u) { x = q[at]; } else if is_of(part, 1u) { x = k[at]; } else { x = v[at]; }
  if has_bias && part.bias != NONE { x = x + vectors[part.bias + i]; }
  return x;
}

fn normed(x: vec4<f32>, scale: f32, part: Part, i: u32) -> vec4<f32> {
  if PART == 2u || part.gamma == NONE { return x; }
  return x * scale * vectors[part.gamma + i];
}

fn store(part: Part, i: u32, x: vec4<f32>) {
  if is_of(part, 0u) {
    q[part.first + i] = x;
    return;
  }
  if part.page == NONE { return; }
  let at = part.page + i;
  if is_of(part, 1u) { k_pages[at] = pack_four(x); } else { v_pages[at] = pack_four(x); }
}

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * threads;
  let heads = heads_of_part();
  let n = index / heads;
  if n >= params.rows { return; }
  let place = places[n];
  let part = part_of(n, index % heads, place.y);
  let items = params.items;
  let rotation = place.x * items;
  var scale = 1.0;
  if PART != 2u && part.gamma != NONE {
    var squares = vec4<f32>();
    for (var i = 0u; i < items; i++) {
      let x = load(part, i);
      squares = fma(x, x, squares);
    }
    scale = inverseSqrt(item_sum(squares) / f32(params.width) + params.eps);
  }
  if !rotates || is_of(part, 2u) {
    for (var i = 0u; i < items; i++) { store(part, i, normed(load(part, i), scale, part, i)); }
    return;
  }
  if adjacent {
    for (var i = 0u; i < items; i++) {
      let x = normed(load(part, i), scale, part, i);
      let cosine = cosines[rotation + i];
      let sine = sines[rotation + i];
      store(part, i, vec4<f32>(
        fma(x.x, cosine.x, -(x.y * sine.x)),
        fma(x.y, cosine.x, x.x * sine.x),
        fma(x.z, cosine.y, -(x.w * sine.y)),
        fma(x.w, cosine.y, x.z * sine.y),
      ));
    }
    return;
  }
  let half = items / 2u;
  for (var i = 0u; i < half; i++) {
    let a = normed(load(part, i), scale, part, i);
    let b = normed(load(part, i + half), scale, part, i + half);
    let entry = rotation + 2u * i;
    let cosine = vec4<f32>(cosines[entry], cosines[entry + 1u]);
    let sine = vec4<f32>(sines[entry], sines[entry + 1u]);
    store(part, i, fma(a, cosine, -(b * sine)));
    store(part, i + half, fma(b, cosine, a * sine));
  }
}
