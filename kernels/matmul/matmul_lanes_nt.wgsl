// y = x · Wᵀ for software adapters: a lane owns ROWS rows, the lanes of a subgroup share the weights. No barrier.
//
// A load costs a software adapter much more than a multiply-add or a broadcast. So every lane loads other elements of the
// weight, once, and broadcasts hand them round: for 4 steps of the depth a lane loads ROWS vectors of x and VECTORS of W, 4
// neighbours along the depth of its own columns, for 4 · COLUMNS · ROWS multiplications. With LANES = 1 this is a register
// tile.
//
// Every output sums along the depth in order, for each of WEIGHTS weights, of which there can be two. With RANK above 0, u is
// A instead of x · Aᵀ: every workgroup multiplies its rows with RANK rows of A, as columns after its own. `low` is what it
// gets, x · Aᵀ.
//
// Operands are those of matmul_operands.wgsl. It, matmul_lanes_first.wgsl, for a second weight matmul_lanes_second.wgsl, `finish`
// and the broadcasts are linked, and a constant in place of a parameter: HAS_LORA (whether rank > 0). PHASES is 1 with a RANK,
// else 2; RANK4 = RANK / 4, and A_VECTORS = RANK / LANES, rounded up.
// Dispatch: ceil(N / (LANES · ROWS)) × ceil(columns / (THREADS · VECTORS)) workgroups; a template for unroll.ts.

fn x_0(i: u32, scale: f32) -> vec4<f32> { return operand(x[i]); }
fn x_1(i: u32, scale: f32) -> vec4<f32> { return operand(scale * u[i]); }

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  hide_lanes(params.rows == 0xffffffffu);
  let lane = index % {LANES}u;
  let first_row = group.x * {LANES*ROWS}u + lane;
  let first_column = group.y * {THREADS*VECTORS}u + index / {LANES}u * {COLUMNS}u;
  let last_row = params.rows - 1u;
  #for i ROWS
  let row{i} = min(first_row + {i*LANES}u, last_row);
  #end
  let last_column = params.columns - 1u;
  #for q VECTORS
  let column{q} = min(first_column + {q*LANES}u + lane, last_column);
  #end
  #for n WEIGHTS
  #for i ROWS
  #for j COLUMNS
  var sum{n}_{i}_{j} = 0.0;
  #end
  #for r RANK
  var low{n}_{i}_{r} = 0.0;
  #end
  #end
  #end

  // The low-rank term goes on with other operands. A branch in one loop would load both kinds.
  let steps_0 = params.depth / 4u;
  let steps_1 = params.rank / 4u;
  let scale = params.lora_scale;
  #for n WEIGHTS
  #for e A_VECTORS
  let a_place{n}_{e} = a_row_{n}(min(lane + {e*LANES}u, {RANK}u - 1u)) * steps_0;
  #end
  #for p PHASES
  if {p}u == 0u || HAS_LORA {
  #for i ROWS
  let place{i} = place_{p}_{n}(row{i});
  #end
  #for q VECTORS
  let first{q} = column{q} * steps_{p};
  #end
  for (var s = 0u; s < steps_{p}; s++) {
    #for i ROWS
    let x{i} = x_{p}(place{i} + s, scale);
    #end
    #for q VECTORS
    let w{q} = w_{p}_{n}(first{q} + s);
    #end
    #insert products
    #for e A_VECTORS
    let a{e} = operand(u[a_place{n}_{e} + s]);
    #end
    #for r RANK
    let c_a{r} = broadcast_vec4f_{r%LANES}(a{r/LANES});
    #for i ROWS
    low{n}_{i}_{r} = add_products(x{i}, c_a{r}, low{n}_{i}_{r});
    #end
    #end
  }
  }
  #end
  #for s RANK4
  {
    #for i ROWS
    let x{i} = operand(scale * vec4<f32>(low{n}_{i}_{4*s}, low{n}_{i}_{4*s+1}, low{n}_{i}_{4*s+2}, low{n}_{i}_{4*s+3}));
    #end
    #for q VECTORS
    let w{q} = w_1_{n}(column{q} * {RANK4}u + {s}u);
    #end
    #insert products
  }
  #end
  #end

  #for i ROWS
  #for j COLUMNS4
  {
    var sums: array<vec4<f32>, {WEIGHTS}>;
    #for n WEIGHTS
    sums[{n}] = vec4<f32>(sum{n}_{i}_{4*j}, sum{n}_{i}_{4*j+1}, sum{n}_{i}_{4*j+2}, sum{n}_{i}_{4*j+3});
    #end
    finish(first_row + {i*LANES}u, first_column / 4u + {j}u, sums);
  }
  #end
  #end
}
