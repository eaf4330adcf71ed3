// Rows of any other width are read one number at a time: the twin of vector_items.wgsl.

alias item = f32;
const item_size = 1u;

fn item_sum(v: item) -> f32 { return v; }
fn item_max(v: item) -> f32 { return v; }
fn item_one_hot(at: u32) -> item { return select(0.0, 1.0, at == 0u); }
