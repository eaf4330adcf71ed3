// How matmul_tiles.wgsl stages W for y = x · W: its vectors lie as the tile wants them. A column or a step
// after the end counts as zero. A template for unroll.ts.

fn read_w(step: u32, column4: u32, steps: u32, is_lora: bool) -> vec4<f32> {
  let columns4 = params.columns / 4u;
  if column4 >= columns4 || step >= 4u * steps { return vec4<f32>(); }
  if is_lora { return operand(load_lora(step * columns4 + column4)); }
  return operand(load_weight(step * columns4 + column4));
}

fn stage_w(thread: u32, first_column: u32, d: u32, steps: u32, is_lora: bool) {
  for (var at = thread; at < {4*BLOCK_COLUMNS}u; at += {THREADS}u) {
    let step = 4u * d + at / {BLOCK_COLUMNS/4}u;
    tile_w[at] = read_w(step, first_column / 4u + at % {BLOCK_COLUMNS/4}u, steps, is_lora);
  }
}
