// Reads a weight stored as Q5_K: w = d · scale · q − d_min · min for blocks of 256 elements along the row, which have
// 8 parts of 32 with a scale and a min each. Products are exact in f32; the difference is rounded once.
//
//   values  [blocks, 40] u32  in, 8 words of the highest bits: bit p of byte e is that of element e of part p; then
//                             eight low q a word: four pairs of parts of 8 words, the first in the low half of each byte
//   scales  [blocks, 6] u32   in, the bits of d and d_min, then bytes (scale, min, scale, min) of two parts each

@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;

fn load_weight(i: u32) -> vec4<f32> {
  let block = i >> 6u;
  let part = (i >> 3u) & 7u;
  let pair = part >> 1u;
  let is_second = part & 1u;
  let first = 40u * block + (i & 7u);
  let low_bits = (values[first + 8u + 8u * pair] >> (4u * is_second)) & 0x0f0f0f0fu;
  let high_bits = (values[first] >> part) & 0x01010101u;
  let at = 6u * block;
  let factors = scales[at + 2u + pair] >> (16u * is_second);
  let scale = bitcast<f32>(scales[at]) * f32(factors & 255u);
  let low = bitcast<f32>(scales[at + 1u]) * f32((factors >> 8u) & 255u);
  return scale * vec4<f32>(unpack4xU8(low_bits | (high_bits << 4u))) - low;
}
