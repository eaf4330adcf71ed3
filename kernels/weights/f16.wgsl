// Reads a weight stored as f16, two to a word, so that devices without shader-f16 read it too.
//
//   values  [elements / 4] vec2 u32  in, four f16

@group(0) @binding(1) var<storage, read> values: array<vec2<u32>>;

fn load_weight(i: u32) -> vec4<f32> {
  let packed = values[i];
  return vec4<f32>(unpack2x16float(packed.x), unpack2x16float(packed.y));
}
