// What the forms for software adapters read of their first weight, and often the only one.
//
// Linked: matmul_operands.wgsl and the weight's reader.

fn place_0_0(row: u32) -> u32 { return x_place(row); }
fn place_1_0(row: u32) -> u32 { return u_place(row); }
fn w_0_0(i: u32) -> vec4<f32> { return weight_operand(load_weight(i)); }
fn w_1_0(i: u32) -> vec4<f32> { return operand(load_lora(i)); }

// The row of A where u is A.
fn a_row_0(r: u32) -> u32 { return params.u_column + r; }
