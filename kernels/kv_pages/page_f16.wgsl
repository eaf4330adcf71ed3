// Four adjacent numbers of a key or value in a page: as f16, two in a word. Does not need shader-f16.

alias Packed = vec2<u32>;

fn pack_four(x: vec4<f32>) -> Packed { return vec2<u32>(pack2x16float(x.xy), pack2x16float(x.zw)); }
fn unpack_four(x: Packed) -> vec4<f32> { return vec4<f32>(unpack2x16float(x.x), unpack2x16float(x.y)); }
