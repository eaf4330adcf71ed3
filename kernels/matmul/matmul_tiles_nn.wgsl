// How matmul_tiles.wgsl stages W for y = x · W: its vectors lie as the tile wants them. A template for unroll.ts.

// Neighbouring threads have neighbouring columns.
fn w_block(id: u32) -> vec2<u32> { return vec2<u32>(id % {BLOCK_COLUMNS/4}u, id / {BLOCK_COLUMNS/4}u); }

// A column after the end is the last one: its product is not stored.
fn w_places(id: u32, first_column: u32, columns: u32, depth: u32) -> vec4<u32> {
  let block = w_block(id);
  let column4 = min(first_column / 4u + block.x, columns / 4u - 1u);
  return (4u * block.y + vec4<u32>(0u, 1u, 2u, 3u)) * (columns / 4u) + column4;
}

// Vectors from four steps of the depth to the next.
fn w_stride() -> u32 { return params.columns; }

fn store_w(id: u32, b: Block) {
  let block = w_block(id);
  #for c 4
  tile_w[4u * block.y + {c}u][block.x] = vec4<f32>(b.r{c});
  #end
}
