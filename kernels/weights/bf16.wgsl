// Reads a weight stored as bf16, two to a word: the upper half of an f32 each.
//
//   values  [elements / 4] vec2 u32  in, four bf16

@group(0) @binding(1) var<storage, read> values: array<vec2<u32>>;

fn load_weight(i: u32) -> vec4<f32> {
  let packed = values[i];
  return bitcast<vec4<f32>>(
    vec4<u32>(packed.x << 16u, packed.x & 0xffff0000u, packed.y << 16u, packed.y & 0xffff0000u),
  );
}
