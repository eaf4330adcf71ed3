// Four adjacent numbers of a key or value in a page: as f32.

alias Packed = vec4<f32>;

fn pack_four(x: vec4<f32>) -> Packed { return x; }
fn unpack_four(x: Packed) -> vec4<f32> { return x; }
