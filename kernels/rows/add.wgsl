// Adds one tensor to another: a thread owns an item.
//
//   x[i] += y[i]
//
//   params  items
//   y       [items] f32   in
//   x       [items] f32   out, accumulated
//
// Dispatch: ceil(items / 64) workgroups, wrapped into y. `item` is linked.

struct Params { items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> y: array<item>;
@group(0) @binding(2) var<storage, read_write> x: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * threads;
  if i < params.items { x[i] += y[i]; }
}
