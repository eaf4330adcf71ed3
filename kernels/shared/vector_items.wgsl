// Rows whose width is a multiple of 4: read four numbers at a time. `items` counts vec4s.

alias item = vec4<f32>;
const item_size = 4u;

fn item_sum(v: item) -> f32 { return (v.x + v.y) + (v.z + v.w); }
// sum + Σ v², without a product and a sum apart, which compilers may or may not fuse.
fn item_squares(v: item, sum: f32) -> f32 { return fma(v.w, v.w, fma(v.z, v.z, fma(v.y, v.y, fma(v.x, v.x, sum)))); }
fn item_max(v: item) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }

// 1 at index `at` of the item, 0 elsewhere; all 0 if `at` lies outside it.
fn item_one_hot(at: u32) -> item { return select(item(), item(1.0), vec4<u32>(at) == vec4<u32>(0u, 1u, 2u, 3u)); }

// v where the low bits are 1, `other` elsewhere.
fn item_keep(v: item, other: item, bits: u32) -> item {
  return select(other, v, (vec4<u32>(bits) & vec4<u32>(1u, 2u, 4u, 8u)) != vec4<u32>());
}

// The first index in the item with `value`, which must be present.
fn item_find(v: item, value: f32) -> u32 {
  return select(select(select(3u, 2u, v.z == value), 1u, v.y == value), 0u, v.x == value);
}

// For values in groups of four: the group of item i, and its index in the group.
fn item_group(i: u32) -> u32 { return i; }
fn item_of_four(four: vec4<f32>, i: u32) -> item { return four; }
