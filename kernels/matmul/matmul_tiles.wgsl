// The matmul of GPUs: a workgroup owns a tile of y, stages 16 steps of both operands in workgroup memory, and every
// thread keeps a register tile in named accumulators. Both operands are staged depth-major, so that a thread reads
// vectors; the transposition is done in registers, 4 × 4 at a time. Some threads stage x and others W, where there are
// enough of them.
//
//   y[n, c] = Σ_d x[n, d] · W'[d, c] + Σ_r lora_scale · u'[n, r] · lora'[r, c]        W' is Wᵀ in nt and W in nn
//
// The depth is cut into chunks of chunk_tiles tiles of 16 steps; the low-rank term is one more chunk after them. Each chunk
// is summed in order from zero, and the chunks are added in order, whatever the tile: its choice changes no bit. A
// workgroup walks `walked` chunks and adds each to y. Where it walks one of several, the workgroups of chunk z store its
// sums at z · N · y_stride of y, which is then the input of matmul_chunks.wgsl.
// Operands are those of matmul_operands.wgsl, which is linked, as are `weight_at`, matmul_stage.wgsl, and w_places, w_stride
// and store_w of the orientation.
// Dispatch: ceil(N / BLOCK_ROWS) × ceil(columns / BLOCK_COLUMNS) × chunks / walked workgroups; a template for unroll.ts.

fn x_at(i: u32) -> operand4 { return to_operand(x[i]); }
fn u_at(i: u32) -> operand4 { return to_operand(params.lora_scale * u[i]); }
fn lora_at(i: u32) -> operand4 { return to_operand(load_lora(i)); }

// The first vectors of a block of x or u. A row after the end is the last one: its product is not stored.
fn x_places(id: u32, first_row: u32, is_lora: bool) -> vec4<u32> {
  let block = x_block(id);
  let rows = min(vec4<u32>(first_row + 4u * block.x) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(params.rows - 1u));
  let stride = select(params.x_stride, params.u_stride, is_lora);
  let column = select(params.x_column, params.u_column, is_lora);
  return (rows * stride + column) / 4u + block.y;
}

// The first vectors of what a thread stages in a pass: the blocks of W come first, then those of x.
fn places(id: u32, first_row: u32, first_column: u32, is_lora: bool) -> vec4<u32> {
  if id < {BLOCK_COLUMNS}u { return w_places(id, first_column, params.columns, select(params.depth, params.rank, is_lora)); }
  return x_places(id, first_row, is_lora);
}

// The block `d` vectors further along the depth. A step after the end counts as zero.
fn load_block(id: u32, first: vec4<u32>, d: u32, steps: u32, is_lora: bool) -> Block {
  if id < {BLOCK_COLUMNS}u {
    if d + w_block(id).y >= steps { return Block(); }
    let at = first + d * w_stride();
    if is_lora { return Block(lora_at(at.x), lora_at(at.y), lora_at(at.z), lora_at(at.w)); }
    return Block(weight_at(at.x), weight_at(at.y), weight_at(at.z), weight_at(at.w));
  }
  if id >= {BLOCKS}u || d + x_block(id).y >= steps { return Block(); }
  let at = first + d;
  if is_lora { return Block(u_at(at.x), u_at(at.y), u_at(at.z), u_at(at.w)); }
  return Block(x_at(at.x), x_at(at.y), x_at(at.z), x_at(at.w));
}

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let first_row = group.x * {BLOCK_ROWS}u;
  let first_column = group.y * {BLOCK_COLUMNS}u;
  // A thread's columns are every ACROSS-th vector, so that neighbours read neighbours.
  let row4 = thread / {ACROSS}u * {THREAD_ROWS4}u;
  let column4 = thread % {ACROSS}u;
  let steps = params.depth / 4u;
  let lora_steps = params.rank / 4u;
  let tiles = (steps + 3u) / 4u;
  let all_tiles = tiles + (lora_steps + 3u) / 4u;
  #for p PASSES
  let id{p} = thread + {p*THREADS}u;
  let first{p} = places(id{p}, first_row, first_column, false);
  let lora_first{p} = places(id{p}, first_row, first_column, true);
  #end
  let first_chunk = group.z * params.walked;
  for (var chunk = first_chunk; chunk < first_chunk + params.walked; chunk++) {
    #for i THREAD_ROWS
    #for j THREAD_COLUMNS4
    var sum{i}_{j} = vec4<f32>();
    #end
    #end
    if params.continued == 1u && chunk == first_chunk {
      #for i THREAD_ROWS
      #for j THREAD_COLUMNS4
      sum{i}_{j} = load_sum(first_row + 4u * row4 + {i}u, first_column / 4u + column4 + {j*ACROSS}u);
      #end
      #end
    }
    // The chunk after the last one of the depth is the low-rank term: other operands, the same products.
    let first_tile = min(chunk * params.chunk_tiles, tiles);
    let is_lora = first_tile == tiles;
    let last_tile = select(min((chunk + 1u) * params.chunk_tiles, tiles), all_tiles, is_lora);
    for (var t = first_tile; t < last_tile; t++) {
      let d = 4u * select(t, t - tiles, is_lora);
      #for p PASSES
      let block{p} = load_block(id{p}, select(first{p}, lora_first{p}, is_lora), d, select(steps, lora_steps, is_lora), is_lora);
      if id{p} < {BLOCK_COLUMNS}u { store_w(id{p}, block{p}); }
      else if id{p} < {BLOCKS}u { store_x(id{p}, block{p}); }
      #end
      workgroupBarrier();
      #insert steps
      workgroupBarrier();
    }
    // A later chunk is added to what y holds, and the residual comes last.
    let adds_y = select(params.addend & ADDEND_Y, ADDEND_Y, chunk > first_chunk);
    let is_last = chunk + 1u == first_chunk + params.walked;
    let adds_residual = select(0u, params.addend & ADDEND_RESIDUAL, is_last);
    let out = Output(group.z * params.rows * params.y_stride / 4u, adds_y | adds_residual);
    #for i THREAD_ROWS
    #for j THREAD_COLUMNS4
    store(first_row + 4u * row4 + {i}u, first_column / 4u + column4 + {j*ACROSS}u, sum{i}_{j}, out);
    #end
    #end
  }
}
