// How a matmul takes an operand: in f32, as it is.

alias operand4 = vec4<f32>;

fn to_operand(v: vec4<f32>) -> operand4 { return v; }
fn operand(v: vec4<f32>) -> vec4<f32> { return v; }
