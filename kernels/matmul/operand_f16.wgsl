// How a matmul takes an operand: rounded to f16, within the largest finite ones. A larger operand would become
// infinite, and its product with 0 not a number. `rounded` is for what is kept as f16, `operand` for what is multiplied at
// once. Linked before all other parts.

enable f16;

alias operand4 = vec4<f16>;

fn rounded(v: vec4<f32>) -> operand4 { return operand4(clamp(v, vec4<f32>(-65504.0), vec4<f32>(65504.0))); }
fn operand(v: vec4<f32>) -> vec4<f32> { return vec4<f32>(rounded(v)); }
