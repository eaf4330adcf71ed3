// Reads a weight stored as f32: four neighbours along the row that hold the elements 4·i … 4·i + 3 of the matrix.
//
//   weight  [elements / 4] vec4 f32  in

@group(0) @binding(1) var<storage, read> weight: array<vec4<f32>>;

fn load_weight(i: u32) -> vec4<f32> {
  return weight[i];
}
