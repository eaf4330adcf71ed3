// y = x · Wᵀ of few rows for software adapters: a lane owns 4 neighbouring columns, the lanes of a subgroup share x.
//
// As in matmul_lanes_nt.wgsl the loads are what costs, and here nearly all of them are of the weight: each lane loads its
// own columns, 8 neighbours along the depth at once, and nobody loads for rows that there are not. Of x and u a lane loads
// one vector of each row for LANES steps, and broadcasts hand it round.
//
// Every output sums along the depth in order, for each of WEIGHTS weights, of which there can be two. With RANK above 0, u is
// A instead of x · Aᵀ: every workgroup multiplies its rows with RANK rows of A, of which a lane has A_VECTORS = RANK / LANES,
// rounded up. `low` is what it gets, x · Aᵀ.
//
// x may be normalised on the way (matmul_lanes_norm.wgsl). Every workgroup does so for its rows, which for small products
// takes less time than a dispatch.
//
// Operands are those of matmul_operands.wgsl. It, matmul_lanes_first.wgsl and `pair_0`, for a second weight
// matmul_lanes_second.wgsl and `pair_1`, `x_scale` and `x_operand`, `finish` and the broadcasts are linked, and constants in
// place of parameters: READS_U (whether rank > 0 and u is x · Aᵀ) and HAS_REST, whether the depth is no multiple of
// 4 · LANES. RANK4 = RANK / 4.
// Dispatch: ceil(N / ROWS) × ceil(columns / (LANES · 4)) workgroups; a template for unroll.ts.

@compute @workgroup_size({LANES})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  hide_lanes(params.rows == 0xffffffffu);
  let first_row = group.x * {ROWS}u;
  let column4 = group.y * {LANES}u + lane;
  let last_row = params.rows - 1u;
  #for i ROWS
  let row{i} = min(first_row + {i}u, last_row);
  let place{i} = x_place(row{i});
  let scale{i} = x_scale(place{i}, lane);
  #for n WEIGHTS
  var sum{n}_{i} = vec4<f32>();
  #for e A_VECTORS
  var low{n}_{i}_{e} = 0.0;
  #end
  #end
  #end
  let steps = params.depth / 4u;
  #for q 4
  let column{q} = min(4u * column4 + {q}u, params.columns - 1u);
  #end

  // A pair of vectors begins at an even one.
  let in_pairs = select(0u, steps / {LANES}u * {LANES}u, steps % 2u == 0u);
  #for n WEIGHTS
  #for e A_VECTORS
  let a_place{n}_{e} = a_row_{n}(min(lane + {e*LANES}u, {RANK}u - 1u)) * steps;
  #end
  for (var s = 0u; s < in_pairs; s += {LANES}u) {
    #for i ROWS
    let x{i} = x_operand(x[place{i} + s + lane], scale{i}, s + lane);
    #end
    #for l LANES2
    {
      #for q 4
      let pair{q} = pair_{n}((column{q} * steps + s) / 2u + {l}u);
      let first{q} = weight_operand(pair{q}.first);
      let second{q} = weight_operand(pair{q}.second);
      #end
      #for e A_VECTORS
      let a_even{e} = operand(u[a_place{n}_{e} + s + {2*l}u]);
      let a_odd{e} = operand(u[a_place{n}_{e} + s + {2*l+1}u]);
      #end
      #for i ROWS
      {
        var sum = sum{n}_{i};
        let x_even = broadcast_vec4f_{2*l}(x{i});
        let x_odd = broadcast_vec4f_{2*l+1}(x{i});
        #for q 4
        sum[{q}] = add_products(x_odd, second{q}, add_products(x_even, first{q}, sum[{q}]));
        #end
        sum{n}_{i} = sum;
        #for e A_VECTORS
        low{n}_{i}_{e} = add_products(x_odd, a_odd{e}, add_products(x_even, a_even{e}, low{n}_{i}_{e}));
        #end
      }
      #end
    }
    #end
  }

  // The rest of the depth, and the low-rank term: other operands, the same products.
  if HAS_REST {
    for (var s = in_pairs; s < steps; s++) {
      #for q 4
      let w{q} = w_0_{n}(column{q} * steps + s);
      #end
      #for e A_VECTORS
      let a{e} = operand(u[a_place{n}_{e} + s]);
      #end
      #for i ROWS
      let x{i} = x_operand(x[place{i} + s], scale{i}, s);
      #for q 4
      sum{n}_{i}[{q}] = add_products(x{i}, w{q}, sum{n}_{i}[{q}]);
      #end
      #for e A_VECTORS
      low{n}_{i}_{e} = add_products(x{i}, a{e}, low{n}_{i}_{e});
      #end
      #end
    }
  }
  {
    #for s RANK4
    #for q 4
    let b{s}_{q} = w_1_{n}(column{q} * {RANK4}u + {s}u);
    #end
    #end
    #for r RANK
    let b_r{r} = vec4<f32>(b{r/4}_0[{r%4}], b{r/4}_1[{r%4}], b{r/4}_2[{r%4}], b{r/4}_3[{r%4}]);
    #for i ROWS
    sum{n}_{i} = fma(operand(vec4<f32>(params.lora_scale * broadcast_f32_{r%LANES}(low{n}_{i}_{r/LANES}))), b_r{r}, sum{n}_{i});
    #end
    #end
  }
  if READS_U {
    let lora_steps = params.rank / 4u;
    for (var first = 0u; first < lora_steps; first += {LANES}u) {
      #for i ROWS
      let u{i} = operand(params.lora_scale * u[place_1_{n}(row{i}) + min(first + lane, lora_steps - 1u)]);
      #end
      for (var l = 0u; l < min({LANES}u, lora_steps - first); l++) {
        #for q 4
        let b{q} = w_1_{n}(column{q} * lora_steps + first + l);
        #end
        #for i ROWS
        let u{i}_l = shuffle_vec4f(u{i}, l);
        #for q 4
        sum{n}_{i}[{q}] = add_products(u{i}_l, b{q}, sum{n}_{i}[{q}]);
        #end
        #end
      }
    }
  }
  #end

  #for i ROWS
  {
    var sums: array<vec4<f32>, {WEIGHTS}>;
    #for n WEIGHTS
    sums[{n}] = sum{n}_{i};
    #end
    finish(first_row + {i}u, column4, sums);
  }
  #end
}
