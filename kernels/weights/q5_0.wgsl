// Reads a weight stored as Q5_0: w = scale · (q − 16) for blocks of 32 elements along the row.
//
//   values  [blocks, 5] u32      in, the highest bits of q, bit e of element e; then eight low q a word: the first 16
//                                in the low half of each byte, the last 16 in the high half
//   scales  [elements / 32] f32  in

@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;

fn load_weight(i: u32) -> vec4<f32> {
  let block = i >> 3u;
  let first = 5u * block;
  let low_bits = (values[first + 1u + (i & 3u)] >> (i & 4u)) & 0x0f0f0f0fu;
  // The product is four copies, 7 bits apart: bit k of the four lands in bit 8·k.
  let four = (values[first] >> (4u * (i & 7u))) & 15u;
  let high_bits = (four * 0x00204081u) & 0x01010101u;
  return (vec4<f32>(unpack4xU8(low_bits | (high_bits << 4u))) - 16.0) * scales[block];
}
