// y = x · W for software adapters: as matmul_lanes_nt.wgsl, but a lane loads 4 neighbouring columns of 4 rows of W.
//
// Every output sums along the depth in order. Operands are those of matmul_operands.wgsl. It and the broadcasts are linked.
// Dispatch: ceil(N / (LANES · ROWS)) × ceil(columns / (THREADS · 4)) workgroups; a template for unroll.ts.

@compute @workgroup_size({THREADS})
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) index: u32) {
  let lane = index % {LANES}u;
  let first_row = group.x * {LANES*ROWS}u + lane;
  let first_column = group.y * {THREADS*4}u + index / {LANES}u * {LANES*4}u;
  let last_row = params.rows - 1u;
  #for i ROWS
  let row{i} = min(first_row + {i*LANES}u, last_row);
  #end
  let columns4 = params.columns / 4u;
  let column4 = min(first_column / 4u + lane, columns4 - 1u);
  #for i ROWS
  #for l LANES
  var sum{i}_{l} = vec4<f32>();
  #end
  #end
  if params.continued == 1u {
    #for i ROWS
    #for l LANES
    sum{i}_{l} = load_sum(row{i}, first_column / 4u + {l}u);
    #end
    #end
  }

  // The low-rank term is the loop's tail: other operands, the same products.
  let steps = params.depth / 4u;
  let lora_steps = params.rank / 4u;
  for (var s = 0u; s < steps + lora_steps; s++) {
    #for i ROWS
    var x{i}: vec4<f32>;
    #end
    #for q 4
    var w{q}: vec4<f32>;
    #end
    if s < steps {
      #for i ROWS
      x{i} = load_x(row{i}, s);
      #end
      #for q 4
      w{q} = weight_operand(load_weight((4u * s + {q}u) * columns4 + column4));
      #end
    } else {
      let d = s - steps;
      #for i ROWS
      x{i} = load_u(row{i}, d);
      #end
      #for q 4
      w{q} = operand(load_lora((4u * d + {q}u) * columns4 + column4));
      #end
    }
    #for l LANES
    #for q 4
    let c{l}_{q} = broadcast_vec4f_{l}(w{q});
    #for i ROWS
    sum{i}_{l} = fma(vec4<f32>(x{i}[{q}]), c{l}_{q}, sum{i}_{l});
    #end
    #end
    #end
  }

  #for i ROWS
  #for l LANES
  store(first_row + {i*LANES}u, first_column / 4u + {l}u, sum{i}_{l}, Output(0u, params.addend));
  #end
  #end
}
