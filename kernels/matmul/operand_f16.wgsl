// How a matmul takes an operand: rounded to f16, within the largest finite ones. A larger operand would become
// infinite, and its product with 0 not a number.

fn operand(v: vec4<f32>) -> vec4<f32> { return quantizeToF16(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0))); }
