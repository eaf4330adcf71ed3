// Adds the splits of single rows that attention_paged_token_tiles.wgsl computes, in order: a thread owns a vector of o.
//
//   params     first_row of the dispatch, part_rows M, heads H, vectors D / 4, count M · H · D / 4
//   slots      [N]   u32   in, 0xffffffff: inactive, o is zeros
//   positions  [N]   u32   in
//   parts      [splits, M, H, D + 4] f32   in: o not yet divided, top, and its denominator; of the splits that a row sees
//   o          [N, H, D] f32   out, the dispatch's rows are overwritten
//
// Dispatch: ceil(count / threads) workgroups, wrapped into y. `threads`, `SPLIT` and `visibility.wgsl` are linked.

struct Params { first_row: u32, part_rows: u32, heads: u32, vectors: u32, count: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> slots: array<u32>;
@group(0) @binding(2) var<storage, read> positions: array<u32>;
@group(0) @binding(3) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> o: array<vec4<f32>>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let x = id.x + id.y * groups.x * threads;
  if x >= params.count { return; }
  let head = x / params.vectors;
  let row = params.first_row + head / params.heads;
  let to = params.first_row * params.heads * params.vectors + x;
  if slots[row] == 0xffffffffu {
    o[to] = vec4<f32>();
    return;
  }
  let size = params.vectors + 1u;
  let step = params.part_rows * params.heads * size;
  let last = positions[row] / SPLIT;
  let first = first_block(positions[row], 32u) / SPLIT;
  var at = first * step + head * size;
  var value = parts[at + x % params.vectors];
  var state = parts[at + params.vectors].xy;
  for (var split = first; split < last; split++) {
    at += step;
    let other = parts[at + params.vectors].xy;
    let top = max(state.x, other.x);
    let was = exp(state.x - top);
    let now = exp(other.x - top);
    state = vec2<f32>(top, fma(other.y, now, state.y * was));
    value = fma(parts[at + x % params.vectors], vec4<f32>(now), value * was);
  }
  o[to] = value * (1.0 / state.y);
}
