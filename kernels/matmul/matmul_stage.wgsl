// What the matmuls of GPUs share: tiles of both operands in workgroup memory, staged in blocks of 4 × 4. A template for
// unroll.ts.

// Nested arrays: the step is a constant, so naga clamps one index for all 16 of them.
var<workgroup> tile_x: array<array<vec4<f32>, {BLOCK_ROWS/4}>, 16>;
var<workgroup> tile_w: array<array<vec4<f32>, {BLOCK_COLUMNS/4}>, 16>;

// Four vectors of an operand: 4 rows of x or columns of W by 4 steps.
struct Block { r0: operand4, r1: operand4, r2: operand4, r3: operand4 }

// Blocks are dealt out so that neighbouring threads both read whole stretches of memory and write to different banks: by
// rows of 4 (x), then by steps of 4 (y), eight rows at a time.
fn block_of(id: u32, eight: u32) -> vec2<u32> {
  return vec2<u32>(id % eight + eight * (id / (4u * eight)), id / eight % 4u);
}

fn x_block(id: u32) -> vec2<u32> { return block_of(id - {BLOCK_COLUMNS}u, {ROWS_AT_ONCE}u); }

// A block is transposed in the type of operands: as f16 half as many registers move.
fn store_x(id: u32, b: Block) {
  let block = x_block(id);
  #for c 4
  tile_x[4u * block.y + {c}u][block.x] = vec4<f32>(operand4(b.r0[{c}], b.r1[{c}], b.r2[{c}], b.r3[{c}]));
  #end
}
