// Caps logits in place: a thread owns an item.
//
//   x[i] ← cap · tanh(x[i] / cap)
//
//   params  items of x
//   x       [N, V] f32   in and out
//
// Dispatch: ceil(items / threads) workgroups, wrapped into y. `item` and `soft_cap` are linked.

struct Params { items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * threads;
  if i >= params.items { return; }
  x[i] = soft_cap(x[i]);
}
