// How a matmul takes an operand: in f32, as it is.

fn operand(v: vec4<f32>) -> vec4<f32> { return v; }
