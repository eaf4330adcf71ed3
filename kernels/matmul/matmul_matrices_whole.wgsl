// What the workgroups of a product in matrices do (matmul_matrices.wgsl): the chunks of a tile of y, one after the other or
// each by its own. A template for unroll.ts.
// Operands are those of matmul_operands.wgsl, which is linked, as are `weight_at`, and matmul_store.wgsl and a `row_scale` of
// 1, or matmul_store_scaled.wgsl.
// Dispatch: ceil(N / BLOCK_ROWS) × ceil(columns / BLOCK_COLUMNS) × chunks / walked workgroups.

fn work_of(group: vec3<u32>) -> Work {
  let first_chunk = group.z * params.walked;
  let columns = params.columns;
  return Work(
    0u, group.x * {BLOCK_ROWS}u, group.y * {BLOCK_COLUMNS}u, columns, first_chunk, params.walked,
    4u * params.chunk_tiles, group.z * params.rows * params.y_stride / 4u,
  );
}

fn x_at(row: u32, d: u32, is_lora: bool) -> operand4 {
  if is_lora { return to_operand(row_scale(row) * (params.lora_scale * u[u_place(row) + d])); }
  return to_operand(row_scale(row) * x[x_place(row) + d]);
}

fn w_at(segment: u32, i: u32, is_lora: bool) -> operand4 {
  if is_lora { return to_operand(load_lora(i)); }
  return weight_at(i);
}

// A later chunk is added to what y holds, and the residual comes last.
fn output_of(work: Work, chunk: u32) -> Output {
  let adds_y = select(params.addend & ADDEND_Y, ADDEND_Y, chunk > work.first_chunk);
  let is_last = chunk + 1u == work.first_chunk + work.chunks;
  let adds_residual = select(0u, params.addend & ADDEND_RESIDUAL, is_last);
  return Output(work.place, adds_y | adds_residual);
}
