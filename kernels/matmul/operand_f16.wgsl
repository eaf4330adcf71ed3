// How a matmul takes an operand: rounded to f16, within the largest finite ones. A larger operand would become
// infinite, and its product with 0 not a number. `to_operand` is for operands that are kept as f16, `operand` for those
// that are used right away as f32. Needs shader-f16; linked before all other parts, because a directive must come first.

enable f16;

alias operand4 = vec4<f16>;

fn to_operand(v: vec4<f32>) -> operand4 { return operand4(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0))); }
fn operand(v: vec4<f32>) -> vec4<f32> { return vec4<f32>(to_operand(v)); }
