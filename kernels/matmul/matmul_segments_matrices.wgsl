// The products of matmul_segments.wgsl in matrices of subgroups: what the workgroups of matmul_matrices.wgsl do. Linked:
// `weight_at_s` and matmul_segments.wgsl. A template for unroll.ts.

fn work_of(group: vec3<u32>) -> Work {
  let segment = segment_of(group.y);
  let at = group.y - segment.group;
  return Work(
    segment.index, group.x * {BLOCK_ROWS}u, at % segment.tiles * {BLOCK_COLUMNS}u, segment.columns,
    at / segment.tiles, 1u, 4u * segment.chunk_tiles, segment.place,
  );
}

fn x_at(row: u32, d: u32, is_lora: bool) -> operand4 { return to_operand(x[row * (params.depth / 4u) + d]); }

fn w_at(segment: u32, i: u32, is_lora: bool) -> operand4 {
  #for s SEGMENTS
  if segment == {s}u { return weight_at_{s}(i); }
  #end
  return operand4();
}

// The first vector of the chunk's sums, and the vectors of a row.
struct Output { first: u32, columns4: u32 }

fn output_of(work: Work, chunk: u32) -> Output {
  let columns4 = work.columns / 4u;
  return Output(work.place + chunk * params.rows * columns4, columns4);
}

fn store(row: u32, column4: u32, sum: vec4<f32>, out: Output) {
  if row >= params.rows || column4 >= out.columns4 { return; }
  sums[out.first + row * out.columns4 + column4] = sum;
}
