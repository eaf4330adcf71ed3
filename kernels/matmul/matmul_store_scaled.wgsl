// How a product whose rows of x and u were scaled stores its sums: without the scales. They are powers of two, so no bit of
// a sum changes but in numbers below the smallest normal ones. Linked: matmul_operands.wgsl.
//
//   row_scales  [N] f32   in, see row_scales.wgsl

@group(0) @binding(first + 3u) var<storage, read> row_scales: array<f32>;

const ADDEND_RESIDUAL = 0u;
const ADDEND_Y = 2u;

// What is added to a sum, and the vector of y from which its place counts.
struct Output { first: u32, addend: u32 }

fn row_scale(row: u32) -> f32 { return row_scales[row]; }

// Exponents of a power of two and of its inverse add up to twice their bias.
fn inverse(scale: f32) -> f32 { return bitcast<f32>((254u << 23u) - bitcast<u32>(scale)); }

fn store(row: u32, column4: u32, sum: vec4<f32>, out: Output) {
  if row >= params.rows || column4 >= params.columns / 4u { return; }
  let at = output_index(row, column4) + out.first;
  var value = inverse(row_scales[row]) * sum;
  if (out.addend & ADDEND_Y) != 0u { value = y[at] + value; }
  y[at] = value;
}
