// Reads a weight stored as f16 on a device with shader-f16, as it lies too.
//
//   values  [elements / 4] vec4 f16  in

@group(0) @binding(1) var<storage, read> values: array<vec4<f16>>;

fn load_halves(i: u32) -> vec4<f16> { return values[i]; }
fn load_weight(i: u32) -> vec4<f32> { return vec4<f32>(load_halves(i)); }
