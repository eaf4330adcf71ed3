// Reads a weight stored as f16 in vectors of f16, without conversion. Needs shader-f16.
//
//   values  [elements / 4] vec4 f16  in

@group(0) @binding(1) var<storage, read> values: array<vec4<f16>>;

fn load_f16(i: u32) -> vec4<f16> { return values[i]; }
