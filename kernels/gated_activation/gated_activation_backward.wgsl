// A gated activation, backward: a thread owns an item.
//
//   d_up = d_h · activate(gate)        d_gate = d_h · up · activate'(gate)
//
//   params  items of all rows
//   gate    [N, F] f32   in
//   up      [N, F] f32   in
//   d_h     [N, F] f32   in
//   d_gate  [N, F] f32   out, overwritten
//   d_up    [N, F] f32   out, overwritten
//
// Dispatch: ceil(items / 64) workgroups, wrapped into y. `item`, `times_activation` and `times_slope` are linked.

struct Params { items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gate: array<item>;
@group(0) @binding(2) var<storage, read> up: array<item>;
@group(0) @binding(3) var<storage, read> d_h: array<item>;
@group(0) @binding(4) var<storage, read_write> d_gate: array<item>;
@group(0) @binding(5) var<storage, read_write> d_up: array<item>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * threads;
  if i >= params.items { return; }
  let g = gate[i];
  let d = d_h[i];
  d_up[i] = times_activation(d, g);
  d_gate[i] = times_slope(d * up[i], g);
}
