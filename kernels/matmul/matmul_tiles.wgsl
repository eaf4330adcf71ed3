// The matmul of GPUs: a workgroup owns a tile of y, stages 16 steps of both operands in workgroup memory, and every
// thread keeps a register tile in named accumulators. Both operands are staged depth-major, so that a thread reads
// vectors; the transposition is done in registers, 4 × 4 at a time.
//
//   y[n, c] = Σ_d x[n, d] · W'[d, c] + lora_scale · Σ_r u'[n, r] · lora'[r, c]        W' is Wᵀ in nt and W in nn
//
// Every output sums along the depth in order, whatever the tile: its choice changes no bit. Operands are those of
// matmul_operands.wgsl, which is linked, as is the stage_w of the orientation.
// Dispatch: ceil(N / BLOCK_ROWS) × ceil(columns / BLOCK_COLUMNS) workgroups; a template for unroll.ts.

var<workgroup> tile_x: array<vec4<f32>, {4*BLOCK_ROWS}>;
var<workgroup> tile_w: array<vec4<f32>, {4*BLOCK_COLUMNS}>;

// A row or a step after the end counts as zero.
fn read_x(row: u32, d: u32, steps: u32, is_lora: bool) -> vec4<f32> {
  if row >= params.rows || d >= steps { return vec4<f32>(); }
  if is_lora { return load_u(row, d); }
  return load_x(row, d);
}

fn stage_x(thread: u32, first_row: u32, d: u32, steps: u32, is_lora: bool) {
  for (var block = thread; block < {BLOCK_ROWS}u; block += {THREADS}u) {
    let row4 = block % {BLOCK_ROWS/4}u;
    let q = block / {BLOCK_ROWS/4}u;
    let row = first_row + 4u * row4;
    #for i 4
    let r{i} = read_x(row + {i}u, d + q, steps, is_lora);
    #end
    #for c 4
    tile_x[(4u * q + {c}u) * {BLOCK_ROWS/4}u + row4] = vec4<f32>(r0[{c}], r1[{c}], r2[{c}], r3[{c}]);
    #end
  }
}

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  let first_row = group.x * {BLOCK_ROWS}u;
  let first_column = group.y * {BLOCK_COLUMNS}u;
  let thread_row = thread / {BLOCK_COLUMNS/THREAD_COLUMNS}u * {THREAD_ROWS}u;
  let thread_column = thread % {BLOCK_COLUMNS/THREAD_COLUMNS}u * {THREAD_COLUMNS}u;
  #for i THREAD_ROWS
  #for j THREAD_COLUMNS4
  var sum{i}_{j} = vec4<f32>();
  #end
  #end
  if params.continued == 1u {
    #for i THREAD_ROWS
    #for j THREAD_COLUMNS4
    sum{i}_{j} = load_sum(first_row + thread_row + {i}u, (first_column + thread_column) / 4u + {j}u);
    #end
    #end
  }
  // The low-rank term is the loop's tail: other operands, the same products.
  let steps = params.depth / 4u;
  let lora_steps = params.rank / 4u;
  let tiles = (steps + 3u) / 4u;
  let lora_tiles = (lora_steps + 3u) / 4u;
  for (var t = 0u; t < tiles + lora_tiles; t++) {
    let is_lora = t >= tiles;
    let d = select(t, t - tiles, is_lora) * 4u;
    let end = select(steps, lora_steps, is_lora);
    stage_x(thread, first_row, d, end, is_lora);
    stage_w(thread, first_column, d, end, is_lora);
    workgroupBarrier();
    // Each of the 16 steps reads THREAD_ROWS + THREAD_COLUMNS numbers for their product.
    #for k 16
    #for i THREAD_ROWS4
    let x{k}_{i} = tile_x[{k*BLOCK_ROWS/4}u + thread_row / 4u + {i}u];
    #end
    #for j THREAD_COLUMNS4
    let w{k}_{j} = tile_w[{k*BLOCK_COLUMNS/4}u + thread_column / 4u + {j}u];
    #end
    #for i THREAD_ROWS
    #for j THREAD_COLUMNS4
    sum{i}_{j} = fma(vec4<f32>(x{k}_{i/4}[{i%4}]), w{k}_{j}, sum{i}_{j});
    #end
    #end
    #end
    workgroupBarrier();
  }
  #for i THREAD_ROWS
  #for j THREAD_COLUMNS4
  store(first_row + thread_row + {i}u, (first_column + thread_column) / 4u + {j}u, sum{i}_{j});
  #end
  #end
}
