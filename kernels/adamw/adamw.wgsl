// AdamW, second of two steps: thread t owns the items t, t + T, t + 2T, … of the flat arrays.
//
//   ĝ = factor · g        m ← β1·m + (1 − β1)·ĝ        v ← β2·v + (1 − β2)·ĝ²
//   p ← p − (lr·weight_decay·p + lr/(1 − β1^t) · m / (√(v/(1 − β2^t)) + eps))
//
//   params  items, T, β1, 1 − β1, β2, 1 − β2, lr/(1 − β1^t), √(1 − β2^t), eps, lr·weight_decay
//   g       [P] f32   in
//   p       [P] f32   in and out
//   m       [P] f32   in and out
//   v       [P] f32   in and out
//   stats   [4] u32   in: skipped, factor; [1] accumulated: parameters whose √v̂ is below eps
//
// Dispatch: T / 64 workgroups. If `skipped` is 1 nothing changes. `item` is linked.
// Source: Loshchilov, Hutter (2019), algorithm 2.

struct Params {
  items: u32,
  threads: u32,
  beta1: f32,
  rest1: f32,
  beta2: f32,
  rest2: f32,
  step_size: f32,
  correction2: f32,
  eps: f32,
  decay: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> g: array<item>;
@group(0) @binding(2) var<storage, read_write> p: array<item>;
@group(0) @binding(3) var<storage, read_write> m: array<item>;
@group(0) @binding(4) var<storage, read_write> v: array<item>;
@group(0) @binding(5) var<storage, read_write> stats: array<atomic<u32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if atomicLoad(&stats[0]) == 1u { return; }
  let factor = bitcast<f32>(atomicLoad(&stats[3]));
  var below = item();
  for (var i = id.x; i < params.items; i += params.threads) {
    let gradient = factor * g[i];
    let first = params.beta1 * m[i] + params.rest1 * gradient;
    let second = params.beta2 * v[i] + params.rest2 * gradient * gradient;
    let root = sqrt(second) / params.correction2;
    let value = p[i];
    p[i] = value - (params.decay * value + params.step_size * first / (root + params.eps));
    m[i] = first;
    v[i] = second;
    below += select(item(), item(1.0), root < item(params.eps));
  }
  // An integer, so the order in which threads add does not matter.
  let count = u32(item_sum(below));
  if count > 0u { atomicAdd(&stats[1], count); }
}
