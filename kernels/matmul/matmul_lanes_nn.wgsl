// y = x · W for software adapters: as matmul_lanes_nt.wgsl, but a lane loads 4 neighbouring columns of 4 rows of W.
//
// Every output sums along the depth in order. Operands are those of matmul_operands.wgsl. It and the broadcasts are linked, and
// constants in place of parameters: HAS_LORA (whether rank > 0), ADDEND (addend) and CONTINUED (continued).
// Lanes from OWNERS on load what others do: a tile of few columns has fewer vectors of four than lanes.
// Dispatch: ceil(N / (LANES · ROWS)) × ceil(columns / (THREADS · VECTORS)) workgroups; a template for unroll.ts.

fn place_0(row: u32) -> u32 { return x_place(row); }
fn x_0(i: u32, scale: f32) -> vec4<f32> { return operand(x[i]); }
fn w_0(i: u32) -> vec4<f32> { return weight_operand(load_weight(i)); }
fn place_1(row: u32) -> u32 { return u_place(row); }
fn x_1(i: u32, scale: f32) -> vec4<f32> { return operand(scale * u[i]); }
fn w_1(i: u32) -> vec4<f32> { return operand(load_lora(i)); }

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
  let columns4 = params.columns / 4u;
  let column4 = min(first_column / 4u + min(lane, {OWNERS}u - 1u), columns4 - 1u);
  #for i ROWS
  #for l OWNERS
  var sum{i}_{l} = vec4<f32>();
  #end
  #end
  if CONTINUED {
    #for i ROWS
    #for l OWNERS
    sum{i}_{l} = load_sum(row{i}, first_column / 4u + {l}u);
    #end
    #end
  }

  // The low-rank term goes on with other operands. A branch in one loop would load both kinds.
  let steps_0 = params.depth / 4u;
  let steps_1 = params.rank / 4u;
  let scale = params.lora_scale;
  #for p 2
  if {p}u == 0u || HAS_LORA {
  #for i ROWS
  let place{i} = place_{p}(row{i});
  #end
  for (var s = 0u; s < steps_{p}; s++) {
    #for i ROWS
    let x{i} = x_{p}(place{i} + s, scale);
    #end
    #for q 4
    let w{q} = w_{p}((4u * s + {q}u) * columns4 + column4);
    #end
    #for l OWNERS
    #for q 4
    let c{l}_{q} = broadcast_vec4f_{l}(w{q});
    #for i ROWS
    sum{i}_{l} = fma(vec4<f32>(x{i}[{q}]), c{l}_{q}, sum{i}_{l});
    #end
    #end
    #end
  }
  }
  #end

  #for i ROWS
  #for l OWNERS
  store(first_row + {i*LANES}u, first_column / 4u + {l}u, sum{i}_{l}, Output(0u, ADDEND));
  #end
  #end
}
