// How all forms of the matmul store the sums of one weight, and what they add to them. Linked: matmul_operands.wgsl.
//
//   residual  [N, y_stride] f32   in, read as y is

@group(0) @binding(first + 3u) var<storage, read> residual: array<vec4<f32>>;

const ADDEND_RESIDUAL = 1u;
const ADDEND_Y = 2u;

// What is added to a sum, and the vector of y from which its place counts.
struct Output { first: u32, addend: u32 }

fn store(row: u32, column4: u32, sum: vec4<f32>, out: Output) {
  if row >= params.rows || column4 >= params.columns / 4u { return; }
  let at = output_index(row, column4) + out.first;
  var value = sum;
  if (out.addend & ADDEND_Y) != 0u { value = y[at] + value; }
  if (out.addend & ADDEND_RESIDUAL) != 0u { value = residual[output_index(row, column4)] + value; }
  y[at] = value;
}
