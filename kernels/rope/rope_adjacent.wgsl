// Rotary position embedding of adjacent pairs, in place: a thread owns a pair and rotates it in some heads of its row, so
// the angle is read once for all of them.
//
//   angle[n, i] = ± the table's angle of positions[n] and i    for i < D/2; minus for the inverse, which is the gradient
//   x[n, h, 2i]     ← x[n, h, 2i] · cos(angle) − x[n, h, 2i + 1] · sin(angle)
//   x[n, h, 2i + 1] ← x[n, h, 2i + 1] · cos(angle) + x[n, h, 2i] · sin(angle)
//
//   params     rows N, heads H, heads of a thread, pairs D/2, sign (1 or −1)
//   positions  [N] u32           in, below T
//   cosines    [T, D/2] f32      in
//   sines      [T, D/2] f32      in
//   x          [N, H, D] f32     in and out
//
// Dispatch: N · ceil(H / heads of a thread) · D/2 threads, 64 to a workgroup, wrapped into y.
// Source: Su et al. (2021), equation 34.

struct Params { rows: u32, heads: u32, thread_heads: u32, pairs: u32, sign: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> positions: array<u32>;
@group(0) @binding(2) var<storage, read> cosines: array<f32>;
@group(0) @binding(3) var<storage, read> sines: array<f32>;
@group(0) @binding(4) var<storage, read_write> x: array<vec2<f32>>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * threads;
  let i = index % params.pairs;
  let group = index / params.pairs;
  let head_groups = (params.heads + params.thread_heads - 1u) / params.thread_heads;
  let n = group / head_groups;
  if n >= params.rows { return; }
  let entry = positions[n] * params.pairs + i;
  let cosine = cosines[entry];
  let sine = sines[entry] * params.sign;
  let first = (group % head_groups) * params.thread_heads;
  let last = min(first + params.thread_heads, params.heads);
  for (var h = first; h < last; h++) {
    let at = (n * params.heads + h) * params.pairs + i;
    let pair = x[at];
    x[at] = vec2<f32>(fma(pair.x, cosine, -(pair.y * sine)), fma(pair.y, cosine, pair.x * sine));
  }
}
