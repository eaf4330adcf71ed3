// Rows of any width: read one number at a time, where vector_items.wgsl reads four.

alias item = f32;
const item_size = 1u;

fn item_sum(v: item) -> f32 { return v; }
fn item_squares(v: item, sum: f32) -> f32 { return fma(v, v, sum); }
fn item_max(v: item) -> f32 { return v; }
fn item_one_hot(at: u32) -> item { return select(0.0, 1.0, at == 0u); }
fn item_keep(v: item, other: item, bits: u32) -> item { return select(other, v, (bits & 1u) != 0u); }
fn item_find(v: item, value: f32) -> u32 { return 0u; }
fn item_group(i: u32) -> u32 { return i / 4u; }
fn item_of_four(four: vec4<f32>, i: u32) -> item { return four[i % 4u]; }
