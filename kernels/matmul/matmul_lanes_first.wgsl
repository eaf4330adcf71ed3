// How the forms for software adapters read their first weight, 0, and its low-rank term. A product has two phases, 0 for
// x · Wᵀ and 1 for u · Bᵀ, and each weight its own functions for both: place_<phase>_<weight>(row) is the first vector of the
// row of x or u, and w_<phase>_<weight>(i) a vector of W or B. a_row_<weight>(r) is the row of A that is row r of its term.
//
// Linked: matmul_operands.wgsl and the weight's reader.

fn place_0_0(row: u32) -> u32 { return x_place(row); }
fn place_1_0(row: u32) -> u32 { return u_place(row); }
fn w_0_0(i: u32) -> vec4<f32> { return weight_operand(load_weight(i)); }
fn w_1_0(i: u32) -> vec4<f32> { return operand(load_lora(i)); }
fn a_row_0(r: u32) -> u32 { return params.u_column + r; }

// Four products, added to a sum one after the other. Drivers inline it; to validate a long function takes a time that grows
// with the square of its expressions.
fn add_products(a: vec4<f32>, b: vec4<f32>, sum: f32) -> f32 {
  return fma(a[3], b[3], fma(a[2], b[2], fma(a[1], b[1], fma(a[0], b[0], sum))));
}
