// The matmul of GPUs whose subgroups multiply matrices (tensor cores): a workgroup owns a tile of y, stages STEPS steps of
// both operands in f16 in workgroup memory, and each of its subgroups keeps the sums of a part of the tile as matrices of
// 16 × 16.
//
//   y[n, c] = Σ_d x[n, d] · W'[d, c] + lora_scale · Σ_r u'[n, r] · lora'[r, c]        W' is Wᵀ in nt and W in nn
//
// Every output sums 16 steps at a time along each chunk of the depth, in f32, whatever the tile: the order inside of 16 is
// the device's. Chunks, the low-rank term and what workgroups store of them are as in matmul_tiles.wgsl.
// Operands are those of matmul_operands.wgsl, which is linked with operand_f16.wgsl, as are `weight_at`, stage_w of the
// orientation and the matrices: Left, Right, Sums and what is done with them.
// Dispatch: ceil(N / BLOCK_ROWS) × ceil(columns / BLOCK_COLUMNS) × chunks / walked workgroups; a template for unroll.ts.

var<workgroup> tile_x: array<operand4, {BLOCK_ROWS*X_STRIDE}>;
var<workgroup> tile_w: array<operand4, {W_LENGTH}>;
// One matrix of sums for each subgroup, on its way from and to y.
var<workgroup> passing: array<vec4<f32>, {SUBGROUPS*64}>;

// The invocation within its subgroup.
var<private> lane: u32;

// Stages the steps from `d` vectors on. A step after the end counts as zero, a row after it is the last one.
fn stage_x(thread: u32, first_row: u32, d: u32, steps: u32, is_lora: bool) {
  #for p X_PASSES
  {
    let id = thread + {p*THREADS}u;
    let step = id % {STEPS4}u;
    let row = min(first_row + id / {STEPS4}u, params.rows - 1u);
    var v = operand4();
    if d + step < steps {
      if is_lora { v = load_u(row, d + step); } else { v = load_x(row, d + step); }
    }
    if id < {BLOCK_ROWS*STEPS4}u { tile_x[id / {STEPS4}u * {X_STRIDE}u + step] = v; }
  }
  #end
}

// Where this lane's vectors of a matrix lie: 4 of them for each of 16 rows.
fn passing_at(i: u32) -> vec2<u32> {
  let id = lane + i * {SIZE}u;
  return vec2<u32>(id / 4u, id % 4u);
}

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  lane = thread % {SIZE}u;
  let part = thread / {SIZE}u;
  let first_row = group.x * {BLOCK_ROWS}u;
  let first_column = group.y * {BLOCK_COLUMNS}u;
  // The subgroup's part of the tile.
  let part_row = part / {ACROSS}u * {16*ROWS}u;
  let part_column = part % {ACROSS}u * {16*COLUMNS}u;
  let steps = params.depth / 4u;
  let lora_steps = params.rank / 4u;
  let first_chunk = group.z * params.walked;
  for (var chunk = first_chunk; chunk < first_chunk + params.walked; chunk++) {
    #for i ROWS
    #for j COLUMNS
    var sums{i}_{j} = Sums();
    #end
    #end
    if params.continued == 1u && chunk == first_chunk {
      #for i ROWS
      #for j COLUMNS
      #for v VECTORS
      {
        let at = passing_at({v}u);
        passing[part * 64u + 4u * at.x + at.y] =
          load_sum(first_row + part_row + {16*i}u + at.x, (first_column + part_column) / 4u + {4*j}u + at.y);
      }
      #end
      workgroupBarrier();
      sums{i}_{j} = load_sums(part * 64u);
      workgroupBarrier();
      #end
      #end
    }
    // The chunk after the last one of the depth is the low-rank term: other operands, the same products.
    let first = min(chunk * 4u * params.chunk_tiles, steps);
    let is_lora = first == steps;
    let end = select(min(first + 4u * params.chunk_tiles, steps), lora_steps, is_lora);
    for (var d = select(first, 0u, is_lora); d < end; d += {STEPS4}u) {
      stage_x(thread, first_row, d, select(steps, lora_steps, is_lora), is_lora);
      stage_w(thread, first_column, d, select(steps, lora_steps, is_lora), is_lora);
      workgroupBarrier();
      #for c CHUNKS
      if d + {4*c}u < end {
        #for i ROWS
        let left{i} = load_left((part_row + {16*i}u) * {X_STRIDE}u + {4*c}u);
        #end
        #for j COLUMNS
        let right{j} = load_right(part_column + {16*j}u, {c}u);
        #end
        #for i ROWS
        #for j COLUMNS
        sums{i}_{j} = multiply(left{i}, right{j}, sums{i}_{j});
        #end
        #end
      }
      #end
      workgroupBarrier();
    }
    // A later chunk is added to what y holds, and the residual comes last.
    let adds_y = select(params.addend & ADDEND_Y, ADDEND_Y, chunk > first_chunk);
    let is_last = chunk + 1u == first_chunk + params.walked;
    let adds_residual = select(0u, params.addend & ADDEND_RESIDUAL, is_last);
    let out = Output(group.z * params.rows * params.y_stride / 4u, adds_y | adds_residual);
    #for i ROWS
    #for j COLUMNS
    store_sums(part * 64u, sums{i}_{j});
    workgroupBarrier();
    #for v VECTORS
    {
      let at = passing_at({v}u);
      let sum = passing[part * 64u + 4u * at.x + at.y];
      store(first_row + part_row + {16*i}u + at.x, (first_column + part_column) / 4u + {4*j}u + at.y, sum, out);
    }
    #end
    workgroupBarrier();
    #end
    #end
  }
}
