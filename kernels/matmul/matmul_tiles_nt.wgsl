// How matmul_tiles.wgsl stages W for y = x · Wᵀ: 4 × 4 blocks of columns by steps, transposed in registers. A column or a
// step after the end counts as zero. A template for unroll.ts.

fn read_w(column: u32, d: u32, steps: u32, is_lora: bool) -> vec4<f32> {
  if column >= params.columns || d >= steps { return vec4<f32>(); }
  if is_lora { return operand(load_lora(column * steps + d)); }
  return operand(load_weight(column * steps + d));
}

fn stage_w(thread: u32, first_column: u32, d: u32, steps: u32, is_lora: bool) {
  for (var block = thread; block < {BLOCK_COLUMNS}u; block += {THREADS}u) {
    let column4 = block % {BLOCK_COLUMNS/4}u;
    let q = block / {BLOCK_COLUMNS/4}u;
    let column = first_column + 4u * column4;
    #for i 4
    let r{i} = read_w(column + {i}u, d + q, steps, is_lora);
    #end
    #for c 4
    tile_w[(4u * q + {c}u) * {BLOCK_COLUMNS/4}u + column4] = vec4<f32>(r0[{c}], r1[{c}], r2[{c}], r3[{c}]);
    #end
  }
}
