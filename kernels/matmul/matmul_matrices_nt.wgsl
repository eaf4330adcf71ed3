// How matmul_matrices.wgsl stages W for y = x · Wᵀ: column by column, as W lies. A template for unroll.ts.

// A column after the end is the last one: its product is not stored.
fn stage_w(thread: u32, first_column: u32, d: u32, steps: u32, is_lora: bool) {
  #for p W_PASSES
  {
    let id = thread + {p*THREADS}u;
    let step = id % {STEPS4}u;
    let column = min(first_column + id / {STEPS4}u, params.columns - 1u);
    var v = operand4();
    if d + step < steps {
      let at = column * steps + d + step;
      if is_lora { v = to_operand(load_lora(at)); } else { v = weight_at(at); }
    }
    if id < {BLOCK_COLUMNS*STEPS4}u { tile_w[id / {STEPS4}u * {W_STRIDE}u + step] = v; }
  }
  #end
}

// The vector of tile_w at which a matrix starts.
fn right_at(column: u32, chunk: u32) -> u32 { return column * {W_STRIDE}u + 4u * chunk; }
