// Softmax statistics over the vocabulary, first of two steps: a thread owns slice s of a row, the items s, s + S,
// s + 2S, …, and keeps a running maximum, so there is no barrier and no overflow.
//
//   m = max z        sum = Σ exp(z − m)        weighted = Σ (z − m) · exp(z − m)        over the slice
//
//   params    rows, items of a row, slices S
//   logits    [rows, V] f32      in; −inf counts as masked
//   partials  [rows, S, 4] f32   out, overwritten: m, sum, weighted, 0
//
// Dispatch: ceil(rows · S / 64) workgroups, wrapped into y. S follows from V alone. `item` is linked.
// Source: Milakov, Gimelshein, "Online normalizer calculation for softmax" (2018), algorithm 3.

struct Params { rows: u32, items: u32, slices: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logits: array<item>;
@group(0) @binding(2) var<storage, read_write> partials: array<vec4<f32>>;

// A masked logit as a finite number, so that differences stay finite. exp(farthest) is 0 next to a 1.
const masked = -3.0e38;
const farthest = -100.0;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * 64u;
  let row = index / params.slices;
  if row >= params.rows { return; }
  let items = params.items;
  let slices = params.slices;
  let first = row * items;
  var m = masked;
  var sum = 0.0;
  var weighted = 0.0;
  for (var i = index % slices; i < items; i += slices) {
    let z = max(logits[first + i], item(masked));
    let top = max(m, item_max(z));
    let fall = max(m - top, farthest);
    let scale = exp(fall);
    let below = max(z - top, item(farthest));
    let weight = exp(below);
    weighted = scale * (weighted + fall * sum) + item_sum(below * weight);
    sum = scale * sum + item_sum(weight);
    m = top;
  }
  partials[index] = vec4<f32>(m, sum, weighted, 0.0);
}
