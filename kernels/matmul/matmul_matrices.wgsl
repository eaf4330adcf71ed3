// The matmul of GPUs whose subgroups multiply matrices (tensor cores): a workgroup owns a tile of y, stages STEPS steps of
// both operands in f16 in workgroup memory, and each of its subgroups keeps the sums of a part of the tile as matrices of
// 16 × 16.
//
//   y[n, c] = Σ_d x[n, d] · W'[d, c] + Σ_r lora_scale · u'[n, r] · lora'[r, c]        W' is Wᵀ in nt and W in nn
//
// Every output sums 16 steps at a time along each chunk of the depth, in f32, whatever the tile: the order inside of 16 is
// the device's. The low-rank term is scalars, summed in order, so that kernels without matrices can add it too
// (segment_sums.wgsl); its steps are few. Chunks, and what workgroups store of them, are as in matmul_tiles.wgsl.
// Linked: operand_f16.wgsl, the matrices (Left, Right, Sums and what is done with them), stage_w and low_rank_at of the
// orientation, and what the workgroups do: matmul_matrices_whole.wgsl or matmul_segments_matrices.wgsl.
// Dispatch: as what is linked says; a template for unroll.ts.

var<workgroup> tile_x: array<operand4, {BLOCK_ROWS*X_STRIDE}>;
var<workgroup> tile_w: array<operand4, {W_LENGTH}>;
// One matrix of sums for each subgroup, on its way from and to y.
var<workgroup> passing: array<vec4<f32>, {SUBGROUPS*64}>;

// The invocation within its subgroup.
var<private> lane: u32;

// What a workgroup computes: the chunks of a tile, of chunk_steps vectors each, of a product with so many columns. Its sums
// are stored from a vector on.
struct Work {
  segment: u32, first_row: u32, first_column: u32, columns: u32,
  first_chunk: u32, chunks: u32, chunk_steps: u32, place: u32,
}

// Stages the steps from `d` vectors on. A step after the end counts as zero, a row after it is the last one.
fn stage_x(thread: u32, work: Work, d: u32, steps: u32, is_lora: bool) {
  #for p X_PASSES
  {
    let id = thread + {p*THREADS}u;
    let step = id % {STEPS4}u;
    let row = min(work.first_row + id / {STEPS4}u, params.rows - 1u);
    var v = operand4();
    if d + step < steps { v = x_at(row, d + step, is_lora); }
    if id < {BLOCK_ROWS*STEPS4}u { tile_x[id / {STEPS4}u * {X_STRIDE}u + step] = v; }
  }
  #end
}

// Where this lane's vectors of a matrix lie: 4 of them for each of 16 rows.
fn passing_at(i: u32) -> vec2<u32> {
  let id = lane + i * {SIZE}u;
  return vec2<u32>(id / 4u, id % 4u);
}

// Goes on with the low-rank term of four columns by four steps, as segment_sums.wgsl does.
fn add_low_rank(z: vec4<f32>, u: vec4<f32>, b: mat4x4<f32>) -> vec4<f32> {
  var sum = z;
  #for r 4
  sum = fma(vec4<f32>(u[{r}]), b[{r}], sum);
  #end
  return sum;
}

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
  lane = thread % {SIZE}u;
  let part = thread / {SIZE}u;
  // The subgroup's part of the tile.
  let part_row = part / {ACROSS}u * {16*ROWS}u;
  let part_column = part % {ACROSS}u * {16*COLUMNS}u;
  let work = work_of(group);
  let first_row = work.first_row + part_row;
  let column4 = (work.first_column + part_column) / 4u;
  let steps = params.depth / 4u;
  for (var chunk = work.first_chunk; chunk < work.first_chunk + work.chunks; chunk++) {
    let first = min(chunk * work.chunk_steps, steps);
    let out = output_of(work, chunk);
    #for l LOW_RANK
    if first == steps {
      // The chunk after the last one of the depth. A lane has the vectors that it has in passing.
      let rank4 = params.rank / 4u;
      #for i ROWS
      #for j COLUMNS
      #for v VECTORS
      var z{i}_{j}_{v} = vec4<f32>();
      #end
      #end
      #end
      for (var d = 0u; d < rank4; d += {STEPS4}u) {
        stage_x(thread, work, d, rank4, true);
        stage_w(thread, work, d, rank4, true);
        workgroupBarrier();
        for (var s = 0u; s < min({STEPS4}u, rank4 - d); s++) {
          #for i ROWS
          #for v VECTORS
          let u{i}_{v} = vec4<f32>(tile_x[(part_row + {16*i}u + passing_at({v}u).x) * {X_STRIDE}u + s]);
          #end
          #end
          #for j COLUMNS
          let b{j} = low_rank_at(part_column + {16*j}u + 4u * (lane % 4u), s);
          #for i ROWS
          #for v VECTORS
          z{i}_{j}_{v} = add_low_rank(z{i}_{j}_{v}, u{i}_{v}, b{j});
          #end
          #end
          #end
        }
        workgroupBarrier();
      }
      #for i ROWS
      #for j COLUMNS
      #for v VECTORS
      {
        let at = passing_at({v}u);
        store(first_row + {16*i}u + at.x, column4 + {4*j}u + at.y, z{i}_{j}_{v}, out);
      }
      #end
      #end
      #end
      continue;
    }
    #end
    #for i ROWS
    #for j COLUMNS
    var sums{i}_{j} = Sums();
    #end
    #end
    #for c CONTINUES
    if params.continued == 1u && chunk == work.first_chunk {
      #for i ROWS
      #for j COLUMNS
      #for v VECTORS
      {
        let at = passing_at({v}u);
        let row = first_row + {16*i}u + at.x;
        passing[part * 64u + 4u * at.x + at.y] = row_scale(row) * load_sum(row, column4 + {4*j}u + at.y);
      }
      #end
      workgroupBarrier();
      sums{i}_{j} = load_sums(part * 64u);
      workgroupBarrier();
      #end
      #end
    }
    #end
    let end = min(first + work.chunk_steps, steps);
    for (var d = first; d < end; d += {STEPS4}u) {
      stage_x(thread, work, d, steps, false);
      stage_w(thread, work, d, steps, false);
      workgroupBarrier();
      #for c MATRICES_DEEP
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
    #for i ROWS
    #for j COLUMNS
    store_sums(part * 64u, sums{i}_{j});
    workgroupBarrier();
    #for v VECTORS
    {
      let at = passing_at({v}u);
      let sum = passing[part * 64u + 4u * at.x + at.y];
      store(first_row + {16*i}u + at.x, column4 + {4*j}u + at.y, sum, out);
    }
    #end
    workgroupBarrier();
    #end
    #end
  }
}
