// How matmul_matrices.wgsl stages W for y = x · W: step by step, as W lies. A template for unroll.ts.

// A column after the end is the last one: its product is not stored.
fn stage_w(thread: u32, work: Work, d: u32, steps: u32, is_lora: bool) {
  #for p W_PASSES
  {
    let id = thread + {p*THREADS}u;
    let step = id / {BLOCK_COLUMNS/4}u;
    let column4 = min(work.first_column / 4u + id % {BLOCK_COLUMNS/4}u, work.columns / 4u - 1u);
    var v = operand4();
    if 4u * d + step < 4u * steps {
      v = w_at(work.segment, (4u * d + step) * (work.columns / 4u) + column4, is_lora);
    }
    if step < {4*STEPS4}u { tile_w[step * {W_STRIDE}u + id % {BLOCK_COLUMNS/4}u] = v; }
  }
  #end
}

// The vector of tile_w at which a matrix starts.
fn right_at(column: u32, chunk: u32) -> u32 { return 16u * chunk * {W_STRIDE}u + column / 4u; }

// Four columns of A, from `column` on, by four of its steps.
fn low_rank_at(column: u32, step4: u32) -> mat4x4<f32> {
  let at = 4u * step4 * {W_STRIDE}u + column / 4u;
  return mat4x4<f32>(
    #for c 4
    vec4<f32>(tile_w[at + {c*W_STRIDE}u]),
    #end
  );
}
