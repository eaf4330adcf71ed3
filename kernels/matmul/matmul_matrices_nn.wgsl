// How matmul_matrices.wgsl stages W for y = x · W: step by step, as W lies. A template for unroll.ts.

// A column after the end is the last one: its product is not stored.
fn stage_w(thread: u32, first_column: u32, d: u32, steps: u32, is_lora: bool) {
  #for p W_PASSES
  {
    let id = thread + {p*THREADS}u;
    let step = id / {BLOCK_COLUMNS/4}u;
    let column4 = min(first_column / 4u + id % {BLOCK_COLUMNS/4}u, params.columns / 4u - 1u);
    var v = operand4();
    if 4u * d + step < 4u * steps {
      let at = (4u * d + step) * (params.columns / 4u) + column4;
      if is_lora { v = to_operand(load_lora(at)); } else { v = weight_at(at); }
    }
    if step < {4*STEPS4}u { tile_w[step * {W_STRIDE}u + id % {BLOCK_COLUMNS/4}u] = v; }
  }
  #end
}

// The vector of tile_w at which a matrix starts.
fn right_at(column: u32, chunk: u32) -> u32 { return 16u * chunk * {W_STRIDE}u + column / 4u; }
