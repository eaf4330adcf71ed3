// Stores activation(g) · s of the sums g of the first weight and s of the second. `activate` is linked.

fn finish(row: u32, column4: u32, sums: array<vec4<f32>, 2>) {
  if row >= params.rows || column4 >= params.columns / 4u { return; }
  y[output_index(row, column4)] = activate(sums[0]) * sums[1];
}
