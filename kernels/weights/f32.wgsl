// Reads a weight stored as f32: the four neighbours of a row that are the elements 4·i … 4·i + 3 of the matrix.
//
//   values  [elements / 4] vec4 f32  in

@group(0) @binding(1) var<storage, read> values: array<vec4<f32>>;

fn load_weight(i: u32) -> vec4<f32> {
  return values[i];
}
