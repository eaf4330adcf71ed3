// Gradient of weighted log-probabilities with respect to the logits, in place: a thread owns an item.
//
//   logits[row, v] ← g[row] · (1[v = target] − exp(logits[row, v] − m − log_sum)) · soft_cap'
//
//   params      rows, items of a row, first row
//   targets     [R] u32        in; entry first_row + row belongs to the row
//   logsumexp  [R, 2] f32     in, from token_logprobs.wgsl: m, log_sum
//   g           [R] f32        in: ∂loss/∂logprob
//   logits      [rows, V] f32  in and out
//
// Dispatch: ceil(rows · items / 64) workgroups, wrapped into y. `item` and `soft_cap_gradient`, by which the
// gradient is that of the logits before their soft cap, are linked.

struct Params { rows: u32, items: u32, first_row: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> targets: array<u32>;
@group(0) @binding(2) var<storage, read> logsumexp: array<vec2<f32>>;
@group(0) @binding(3) var<storage, read> g: array<f32>;
@group(0) @binding(4) var<storage, read_write> logits: array<item>;

const farthest = -100.0;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * 64u;
  let row = index / params.items;
  if row >= params.rows { return; }
  let at = params.first_row + row;
  let coefficient = g[at];
  if coefficient == 0.0 {
    logits[index] = item();
    return;
  }
  let norm = logsumexp[at];
  let logit = logits[index];
  let probability = exp(max(logit - norm.x, item(farthest)) - norm.y);
  let first = (index % params.items) * item_size;
  logits[index] = soft_cap_gradient(coefficient * (item_one_hot(targets[at] - first) - probability), logit);
}
