// Fills a tensor with one word: a thread owns an item.
//
//   x[i] = value
//
//   params  items, value (the bits of an f32 or a u32)
//   x       [items]      out, overwritten
//
// Dispatch: ceil(items / 64) workgroups, wrapped into y. `word` is linked: u32 or vec4<u32>.

struct Params { items: u32, value: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> x: array<word>;

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  let i = id.x + id.y * groups.x * threads;
  if i < params.items { x[i] = word(params.value); }
}
