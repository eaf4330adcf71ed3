// Reads a weight stored as f16, as f16.wgsl does, with loads of eight: a load has a price of its own on a software adapter.
//
//   values  [elements / 8] vec4 u32  in, eight f16

@group(0) @binding(1) var<storage, read> values: array<vec4<u32>>;

struct Pair { first: vec4<f32>, second: vec4<f32> }

fn four(packed: vec2<u32>) -> vec4<f32> {
  return vec4<f32>(unpack2x16float(packed.x), unpack2x16float(packed.y));
}

fn load_weight(i: u32) -> vec4<f32> {
  let packed = values[i / 2u];
  return four(select(packed.xy, packed.zw, i % 2u == 1u));
}

fn load_pair(i: u32) -> Pair {
  let packed = values[i];
  return Pair(four(packed.xy), four(packed.zw));
}
