// Reads a weight stored as Q8_0: w = scale · q for blocks of 32 elements along the row.
//
//   values  [elements / 4] u32   in, four signed bytes
//   scales  [elements / 32] f32  in

@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;

fn load_weight(i: u32) -> vec4<f32> {
  return vec4<f32>(unpack4xI8(values[i])) * scales[i >> 3u];
}
