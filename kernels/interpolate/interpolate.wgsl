// Moves a tensor along the line from another one: a thread owns an item.
//
//   x[i] = from[i] + scale · (x[i] − from[i]);  at scale 0 x[i] is from[i], bit for bit
//
//   params  items, scale
//   origin  [items]  in, `from` above
//   x       [items]  out, read and overwritten
//
// Dispatch: ceil(items / 64) workgroups, wrapped into y. `item` is linked.

struct Params { items: u32, scale: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> origin: array<item>;
@group(0) @binding(2) var<storage, read_write> x: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * threads;
  if i >= params.items { return; }
  if params.scale == 0.0 {
    // The copy must not depend on x, even if x is NaN.
    x[i] = origin[i];
  } else {
    x[i] = origin[i] + params.scale * (x[i] - origin[i]);
  }
}
