// How matmul_tiles.wgsl and matmul_segments.wgsl stage W for y = x · Wᵀ: 4 × 4 blocks of columns by steps, transposed in registers. A template
// for unroll.ts.

fn w_block(id: u32) -> vec2<u32> { return block_of(id, {COLUMNS_AT_ONCE}u); }

// A column after the end is the last one: its product is not stored.
fn w_places(id: u32, first_column: u32, columns: u32, depth: u32) -> vec4<u32> {
  let block = w_block(id);
  let first = vec4<u32>(first_column + 4u * block.x);
  return min(first + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>(columns - 1u)) * (depth / 4u) + block.y;
}

// Vectors from one of the depth to the next.
fn w_stride() -> u32 { return 1u; }

fn store_w(id: u32, b: Block) {
  let block = w_block(id);
  #for c 4
  tile_w[4u * block.y + {c}u][block.x] = vec4<f32>(operand4(b.r0[{c}], b.r1[{c}], b.r2[{c}], b.r3[{c}]));
  #end
}
