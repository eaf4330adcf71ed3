// Samples a token, first of two steps: a thread owns slice s of a row, the items s, s + S, s + 2S, …, keeps the softmax
// statistics of the allowed ids, and the best score of the Gumbel form, so there is no barrier and no sorting.
//
//   z' = z / T (z where T is 0), of ids that the mask allows with z ≥ cutoff
//   score = z' + gumbel(pcg4d(rng_key, position, id / 4)[id % 4]), or z' itself where T is 0
//   m = max z'        sum = Σ exp(z' − m)        best = the largest score with the lowest id, over the slice
//
//   params       rows B, items of a row, slices S, words of a row of the mask, has_cutoff
//   logits       [B, V] f32              in
//   mask         [B, ceil(V / 32)] u32   in
//   temperature  [B] f32                 in, 0 or above
//   rng_key       [B, 2] u32              in
//   position     [B] u32                 in: the position in its sequence of the token to sample
//   cutoff       [B] f32                 in; not read where has_cutoff is 0
//   partials     [B, S, 4] f32           out, overwritten: m, sum, best score, its id (an integer below 2^24)
//
// Dispatch: ceil(B · S / 64) workgroups, wrapped into y. S follows from V alone. `item`, masked_logits, pcg4d and
// gumbel are linked.
// Source: Maddison, Tarlow, Minka, "A* Sampling" (2014), §2: argmax(z + gumbel) is a sample from softmax(z).

struct Params { rows: u32, items: u32, slices: u32, mask_words: u32, has_cutoff: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(3) var<storage, read> temperature: array<f32>;
@group(0) @binding(4) var<storage, read> rng_key: array<vec2<u32>>;
@group(0) @binding(5) var<storage, read> position: array<u32>;
@group(0) @binding(6) var<storage, read> cutoff: array<f32>;
@group(0) @binding(7) var<storage, read_write> partials: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * 64u;
  let row = index / params.slices;
  if row >= params.rows { return; }
  let t = temperature[row];
  let inverse = 1.0 / select(t, 1.0, t == 0.0);
  let key = vec4<u32>(rng_key[row], position[row], 0u);
  var lowest = masked;
  if params.has_cutoff == 1u { lowest = cutoff[row]; }
  var m = masked;
  var sum = 0.0;
  var best = vec2<f32>(masked, 0.0);
  for (var i = index % params.slices; i < params.items; i += params.slices) {
    let raw = masked_logits(row, i);
    let z = max(select(item(masked), raw * inverse, raw >= item(lowest)), item(masked));
    let top = max(m, item_max(z));
    sum = sum * exp(max(m - top, farthest)) + item_sum(exp(max(z - top, item(farthest))));
    m = top;
    var score = z;
    if t != 0.0 { score += item_of_four(gumbel(pcg4d(key + vec4<u32>(0u, 0u, 0u, item_group(i)))), i); }
    let highest = item_max(score);
    if highest > best.x { best = vec2<f32>(highest, f32(i * item_size + item_find(score, highest))); }
  }
  partials[index] = vec4<f32>(m, sum, best);
}
