// Reads a weight stored as Q4_K: w = d · scale · q − d_min · min for blocks of 256 elements along the row, which have
// 8 parts of 32 with a scale and a min each. Products are exact in f32; the difference is rounded once.
//
//   values  [blocks, 32] u32  in, eight q: four parts, 8 words for each two, the first in the low half of each byte
//   scales  [blocks, 6] u32   in, the bits of d and d_min, then bytes (scale, min, scale, min) of two parts each

@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;

fn load_weight(i: u32) -> vec4<f32> {
  let block = i >> 6u;
  let pair = (i >> 4u) & 3u;
  let is_second = (i >> 3u) & 1u;
  let word = values[32u * block + 8u * pair + (i & 7u)] >> (4u * is_second);
  let at = 6u * block;
  let factors = scales[at + 2u + pair] >> (16u * is_second);
  let scale = bitcast<f32>(scales[at]) * f32(factors & 255u);
  let low = bitcast<f32>(scales[at + 1u]) * f32((factors >> 8u) & 255u);
  return scale * vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)) - low;
}
