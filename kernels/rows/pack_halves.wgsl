// Keeps rows in half precision: a thread owns four neighbouring numbers.
//
//   halves[i] = f16(x[i]), the largest number of f16 for what is beyond it
//
//   params  count / 4
//   x       [count] f32   in
//   halves  [count] f16   out, two to a word
//
// Dispatch: ceil(count / 4 / threads) workgroups, wrapped into y.

struct Params { items: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> halves: array<vec2<u32>>;

const MOST = vec4<f32>(65504.0);

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let at = id.x + id.y * groups.x * threads;
  if at >= params.items { return; }
  let v = clamp(x[at], -MOST, MOST);
  halves[at] = vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw));
}
