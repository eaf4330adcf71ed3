// Rotary position embedding in place: a thread owns an item of pairs and rotates it in some heads of its row, so the
// angle is read once for all of them.
//
//   angle[n, i] = ± positions[n] · base^(−2i/D)        for i < D/2; minus for the inverse, which is the gradient
//   x[n, h, i]       ← x[n, h, i] · cos(angle) − x[n, h, i + D/2] · sin(angle)
//   x[n, h, i + D/2] ← x[n, h, i + D/2] · cos(angle) + x[n, h, i] · sin(angle)
//
//   params     rows N, heads H, heads of a thread, items of half a head, sign (1 or −1)
//   positions  [N] u32           in, below T
//   cosines    [T, D/2] f32      in
//   sines      [T, D/2] f32      in
//   x          [N, H, D] f32     in and out
//
// Dispatch: N · ceil(H / heads of a thread) · items threads, 64 to a workgroup, wrapped into y. `item` is linked.
// Source: Su et al. (2021), equation 34, with the pairs (i, i + D/2) of GPT-NeoX.

struct Params { rows: u32, heads: u32, thread_heads: u32, half_items: u32, sign: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> positions: array<u32>;
@group(0) @binding(2) var<storage, read> cosines: array<item>;
@group(0) @binding(3) var<storage, read> sines: array<item>;
@group(0) @binding(4) var<storage, read_write> x: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * threads;
  let i = index % params.half_items;
  let group = index / params.half_items;
  let head_groups = (params.heads + params.thread_heads - 1u) / params.thread_heads;
  let n = group / head_groups;
  if n >= params.rows { return; }
  let entry = positions[n] * params.half_items + i;
  let cosine = cosines[entry];
  let sine = sines[entry] * params.sign;
  let first = (group % head_groups) * params.thread_heads;
  let last = min(first + params.thread_heads, params.heads);
  for (var h = first; h < last; h++) {
    let low = (n * params.heads + h) * 2u * params.half_items + i;
    let high = low + params.half_items;
    let a = x[low];
    let b = x[high];
    x[low] = fma(a, cosine, -(b * sine));
    x[high] = fma(b, cosine, a * sine);
  }
}
