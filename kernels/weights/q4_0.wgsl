// Reads a weight stored as Q4_0: w = scale · (q − 8) for blocks of 32 elements along the row.
//
//   values  [elements / 8] u32   in, eight q: a block's words hold its first 16 in the low half of each byte,
//                                its last 16 in the high half
//   scales  [elements / 32] f32  in

@group(0) @binding(1) var<storage, read> values: array<u32>;
@group(0) @binding(2) var<storage, read> scales: array<f32>;

fn load_weight(i: u32) -> vec4<f32> {
  let block = i >> 3u;
  let word = values[4u * block + (i & 3u)] >> (i & 4u);
  return (vec4<f32>(unpack4xU8(word & 0x0f0f0f0fu)) - 8.0) * scales[block];
}
