// Reads a weight stored as Q4_1: w = scale · q + low for blocks of 32 elements along the row. Products are exact in f32;
// the sum is rounded once.
//
//   values  [elements / 8] u32   in, eight q: a block's words hold its first 16 in the low half of each byte,
//                                its last 16 in the high half
//   scales  [blocks, 2] f32      in, scale and low

@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;

fn load_weight(i: u32) -> vec4<f32> {
  let block = i >> 3u;
  let word = values[4u * block + (i & 3u)] >> (i & 4u);
  let q = vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu));
  return q * scales[2u * block] + scales[2u * block + 1u];
}
