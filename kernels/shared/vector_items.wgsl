// Rows whose width is a multiple of 4 are read four numbers at a time; `items` counts vec4s.

alias item = vec4<f32>;
const item_size = 4u;

fn item_sum(v: item) -> f32 { return (v.x + v.y) + (v.z + v.w); }
fn item_max(v: item) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }

// 1 at place `at` of the item, 0 elsewhere; all 0 where `at` lies outside it.
fn item_one_hot(at: u32) -> item { return select(item(), item(1.0), vec4<u32>(at) == vec4<u32>(0u, 1u, 2u, 3u)); }
