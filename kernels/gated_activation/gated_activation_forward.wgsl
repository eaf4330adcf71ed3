// A gated activation, forward: a thread owns an item.
//
//   h[n, f] = activate(gate[n, f]) · up[n, f]
//
//   params  items of all rows
//   gate    [N, F] f32   in
//   up      [N, F] f32   in
//   h       [N, F] f32   out, overwritten
//
// Dispatch: ceil(items / 64) workgroups, wrapped into y. `item` and `activate` are linked.
// Source: Shazeer (2020), equation 5.

struct Params { items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gate: array<item>;
@group(0) @binding(2) var<storage, read> up: array<item>;
@group(0) @binding(3) var<storage, read_write> h: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * threads;
  if i >= params.items { return; }
  h[i] = activate(gate[i]) * up[i];
}
