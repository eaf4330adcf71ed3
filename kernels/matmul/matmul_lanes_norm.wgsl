// A row of x is normalised before it is multiplied, as rms_norm_forward_lanes.wgsl does it, with the same bits.
//
//   gamma  [depth] f32   in
//
// The lanes of a subgroup own the row together: each loads its vectors, and broadcasts hand them round, so that every lane
// adds all of them in order. Linked: matmul_operands.wgsl, `first`, `operand`, the broadcasts, and EPS, which is added to the
// mean square. A template for unroll.ts.

@group(0) @binding(first - 1u) var<storage, read> gamma: array<vec4<f32>>;

// 1 / sqrt(mean(x²) + EPS) of the row that begins at this vector.
fn x_scale(place: u32, lane: u32) -> f32 {
  let steps = params.depth / 4u;
  var squares = vec4<f32>();
  for (var s = 0u; s < steps; s += {LANES}u) {
    // Zeros after the row's end change nothing.
    let v = select(vec4<f32>(), x[place + min(s + lane, steps - 1u)], s + lane < steps);
    #for l LANES
    {
      let v_l = broadcast_vec4f_{l}(v);
      squares = fma(v_l, v_l, squares);
    }
    #end
  }
  return inverseSqrt(((squares.x + squares.y) + (squares.z + squares.w)) / f32(params.depth) + EPS);
}

fn x_operand(v: vec4<f32>, scale: f32, d: u32) -> vec4<f32> { return operand(v * scale * gamma[d]); }
