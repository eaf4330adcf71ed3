// Reads a weight stored as Q6_K: w = d · scale · (q − 32) for blocks of 256 elements along the row, which have 16 parts
// of 16 with a scale each. Products are exact in f32.
//
//   values  [blocks, 48] u32  in, 32 words of the four low bits of q, then 16 of the two high ones. Each half of a block
//                             is four quarters of 32 elements; quarters 0 and 1 have 8 words each and lie in the low
//                             half of their bytes, 2 and 3 in the high half; of the high words' bytes quarter k has
//                             the bits 2·k and 2·k + 1
//   scales  [blocks, 5] u32   in, the bits of d, then 16 signed bytes

@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<u32>;

fn load_weight(i: u32) -> vec4<f32> {
  let block = i >> 6u;
  let half = (i >> 5u) & 1u;
  let quarter = (i >> 3u) & 3u;
  let first = 48u * block + (i & 7u);
  let low_bits = (values[first + 16u * half + 8u * (quarter & 1u)] >> (2u * (quarter & 2u))) & 0x0f0f0f0fu;
  let high_bits = (values[first + 32u + 8u * half] >> (2u * quarter)) & 0x03030303u;
  let part = (i >> 2u) & 15u;
  let at = 5u * block;
  let factor = extractBits(bitcast<i32>(scales[at + 1u + (part >> 2u)]), 8u * (part & 3u), 8u);
  let q = vec4<f32>(unpack4xU8(low_bits | (high_bits << 4u))) - 32.0;
  return bitcast<f32>(scales[at]) * f32(factor) * q;
}
