// A sum of squares in one order, first of two steps: thread t owns the items t, t + T, t + 2T, … and adds them in order.
//
//   partials[t] = Σ_k x[t + k·T]²
//
//   params    items, T
//   x         [items] f32   in
//   partials  [T] f32       out, overwritten
//
// Dispatch: T / 64 workgroups. `item` is linked.

struct Params { items: u32, partials: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<item>;
@group(0) @binding(2) var<storage, read_write> partials: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var sum = item();
  for (var i = id.x; i < params.items; i += params.partials) { sum += x[i] * x[i]; }
  partials[id.x] = item_sum(sum);
}
