// How matmul_matrices.wgsl stages W for y = x · Wᵀ: column by column, as W lies. A template for unroll.ts.

// A column after the end is the last one: its product is not stored.
fn stage_w(thread: u32, work: Work, d: u32, steps: u32, is_lora: bool) {
  #for p W_PASSES
  {
    let id = thread + {p*THREADS}u;
    let step = id % {STEPS4}u;
    let column = min(work.first_column + id / {STEPS4}u, work.columns - 1u);
    var v = operand4();
    if d + step < steps { v = w_at(work.segment, column * steps + d + step, is_lora); }
    if id < {BLOCK_COLUMNS*STEPS4}u { tile_w[id / {STEPS4}u * {W_STRIDE}u + step] = v; }
  }
  #end
}

// The vector of tile_w at which a matrix starts.
fn right_at(column: u32, chunk: u32) -> u32 { return column * {W_STRIDE}u + 4u * chunk; }

// Four columns of B, from `column` on, by four of its steps.
fn low_rank_at(column: u32, step4: u32) -> mat4x4<f32> {
  let at = column * {W_STRIDE}u + step4;
  return transpose(mat4x4<f32>(
    #for c 4
    vec4<f32>(tile_w[at + {c*W_STRIDE}u]),
    #end
  ));
}
