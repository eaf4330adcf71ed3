// Widens rows in half precision: a thread owns four neighbouring numbers.
//
//   x[i] = halves[i], exact
//
//   params  count / 4
//   halves  [count] f16   in, two to a word
//   x       [count] f32   out, overwritten
//
// Dispatch: ceil(count / 4 / threads) workgroups, wrapped into y.

struct Params { items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> halves: array<vec2<u32>>;
@group(0) @binding(2) var<storage, read_write> x: array<vec4<f32>>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let at = id.x + id.y * groups.x * threads;
  if at >= params.items { return; }
  let packed = halves[at];
  x[at] = vec4<f32>(unpack2x16float(packed.x), unpack2x16float(packed.y));
}
