// The products of matmul_segments.wgsl in tiles of scalars: the sums of a chunk are those of matmul_tiles.wgsl.
//
//   sums_s[k, n, c] = Σ_d x[n, d] · W_s[c, d]     for the steps d of chunk k of segment s
//
// Linked: `weight_at_s`, matmul_segments.wgsl, matmul_stage.wgsl and matmul_tiles_nt.wgsl. A template for unroll.ts.

fn load_w(index: u32, at: vec4<u32>) -> Block {
  #for s SEGMENTS
  if index == {s}u { return Block(weight_at_{s}(at.x), weight_at_{s}(at.y), weight_at_{s}(at.z), weight_at_{s}(at.w)); }
  #end
  return Block();
}

fn x_at(i: u32) -> operand4 { return to_operand(x[i]); }

// The first vectors of what a thread stages in a pass, as in matmul_tiles.wgsl.
fn places(id: u32, first_row: u32, first_column: u32, columns: u32) -> vec4<u32> {
  if id < {BLOCK_COLUMNS}u { return w_places(id, first_column, columns, params.depth); }
  let block = x_block(id);
  let rows = min(vec4<u32>(first_row + 4u * block.x) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.rows - 1u));
  return rows * (params.depth / 4u) + block.y;
}

fn load_block(id: u32, first: vec4<u32>, d: u32, index: u32) -> Block {
  let steps = params.depth / 4u;
  if id < {BLOCK_COLUMNS}u {
    if d + w_block(id).y >= steps { return Block(); }
    return load_w(index, first + d);
  }
  if id >= {BLOCKS}u || d + x_block(id).y >= steps { return Block(); }
  let at = first + d;
  return Block(x_at(at.x), x_at(at.y), x_at(at.z), x_at(at.w));
}

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let segment = segment_of(group.y);
  let first_row = group.x * {BLOCK_ROWS}u;
  let first_column = (group.y - segment.group) % segment.tiles * {BLOCK_COLUMNS}u;
  let chunk = (group.y - segment.group) / segment.tiles;
  let row4 = thread / {ACROSS}u * {THREAD_ROWS4}u;
  let column4 = thread % {ACROSS}u;
  #for p PASSES
  let id{p} = thread + {p*THREADS}u;
  let first{p} = places(id{p}, first_row, first_column, segment.columns);
  #end
  #for i THREAD_ROWS
  #for j THREAD_COLUMNS4
  var sum{i}_{j} = vec4<f32>();
  #end
  #end
  let last_tile = min((chunk + 1u) * segment.chunk_tiles, (params.depth + 15u) / 16u);
  for (var t = chunk * segment.chunk_tiles; t < last_tile; t++) {
    #for p PASSES
    let block{p} = load_block(id{p}, first{p}, 4u * t, segment.index);
    if id{p} < {BLOCK_COLUMNS}u { store_w(id{p}, block{p}); }
    else if id{p} < {BLOCKS}u { store_x(id{p}, block{p}); }
    #end
    workgroupBarrier();
    #insert steps
    workgroupBarrier();
  }
  let columns4 = segment.columns / 4u;
  #for i THREAD_ROWS
  {
    let row = first_row + 4u * row4 + {i}u;
    #for j THREAD_COLUMNS4
    let at{j} = first_column / 4u + column4 + {j*ACROSS}u;
    if row < params.rows && at{j} < columns4 {
      sums[segment.place + (chunk * params.rows + row) * columns4 + at{j}] = sum{i}_{j};
    }
    #end
  }
  #end
}
