// KL(p‖q) over the vocabulary, first of two steps: a thread sums slice s of a row, the items s, s + S, s + 2S, …
//
//   d = log q[v] − log p[v]        partial = Σ p[v] · (exp(d) − 1 − d)
//
// The sum over the vocabulary is KL(p‖q), as both add up to 1; no term is below 0, so nothing cancels.
//
//   params        rows, items of a row, slices S, first row
//   p_logits      [rows, V] f32   in; −inf counts as masked, in both alike
//   q_logits      [rows, V] f32   in
//   p_logsumexp  [R, 2] f32      in, of token_logprobs.wgsl; entry first_row + row belongs to the row
//   q_logsumexp  [R, 2] f32      in
//   partials      [rows, S] f32   out, overwritten
//
// Dispatch: ceil(rows · S / 64) workgroups, wrapped into y. S follows from V alone. `item` is linked.

struct Params { rows: u32, items: u32, slices: u32, first_row: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> p_logits: array<item>;
@group(0) @binding(2) var<storage, read> q_logits: array<item>;
@group(0) @binding(3) var<storage, read> p_logsumexp: array<vec2<f32>>;
@group(0) @binding(4) var<storage, read> q_logsumexp: array<vec2<f32>>;
@group(0) @binding(5) var<storage, read_write> partials: array<f32>;

// A masked logit as a finite number, so that differences stay finite. Its exp is 0 next to any probability.
const masked = -3.0e38;
const farthest = -100.0;
// Below this the difference of exp(d) − 1 and d loses its digits, and the series is exact in f32.
const near = 0.25;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let index = id.x + id.y * groups.x * 64u;
  let row = index / params.slices;
  if row >= params.rows { return; }
  let p_norm = p_logsumexp[params.first_row + row];
  let q_norm = q_logsumexp[params.first_row + row];
  var sum = 0.0;
  for (var i = index % params.slices; i < params.items; i += params.slices) {
    let at = row * params.items + i;
    let log_p = max((max(p_logits[at], item(masked)) - p_norm.x) - p_norm.y, item(farthest));
    let log_q = max((max(q_logits[at], item(masked)) - q_norm.x) - q_norm.y, item(farthest));
    let d = log_q - log_p;
    let p = exp(log_p);
    // exp(d) − 1 − d = d² (1/2 + d/6 + d²/24 + d³/120 + d⁴/720 + …)
    let series = d * d * (0.5 + d * (1.0 / 6.0 + d * (1.0 / 24.0 + d * (1.0 / 120.0 + d / 720.0))));
    let whole = (exp(log_q) - p) - p * d;
    sum += item_sum(select(whole, p * series, abs(d) < item(near)));
  }
  partials[index] = max(sum, 0.0);
}
