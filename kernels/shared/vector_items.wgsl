// Rows whose width is a multiple of 4 are read four numbers at a time; `items` counts vec4s.

alias item = vec4<f32>;
const item_size = 4u;

fn item_sum(v: item) -> f32 { return (v.x + v.y) + (v.z + v.w); }
fn item_max(v: item) -> f32 { return max(max(v.x, v.y), max(v.z, v.w)); }
