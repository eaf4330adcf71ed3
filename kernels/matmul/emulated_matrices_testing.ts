/** Matrices that a workgroup computes without the help of its subgroups, so that every adapter runs matmul_matrices.wgsl. */

import { type Gpu, SUBGROUP_MATRIX } from "../device.ts";
import { unroll } from "../unroll.ts";

/** As subgroup_matrices.wgsl: a lane has the vectors of a matrix that it has in passing, and reads operands where they lie. */
const TEXT = `
alias Left = u32;
struct Right { column: u32, chunk: u32 }
struct Sums {
  #for v VECTORS
  v{v}: vec4<f32>,
  #end
}

fn load_left(at: u32) -> Left { return at; }
fn load_right(column: u32, chunk: u32) -> Right { return Right(column, chunk); }

fn multiply(left: Left, right: Right, sums: Sums) -> Sums {
  var out = sums;
  // From the end: the order inside of 16 steps is the device's.
  for (var k = 4u; k > 0u; k--) {
    let k4 = k - 1u;
    let w = right_block(right_at(right.column, right.chunk), 4u * (lane % 4u), k4);
    #for v VECTORS
    out.v{v} = add_low_rank(out.v{v}, vec4<f32>(tile_x[left + passing_at({v}u).x * {X_STRIDE}u + k4]), w);
    #end
  }
  return out;
}

// Four columns of a matrix of W, from \`column\` on, by four of its steps.
fn right_block(at: u32, column: u32, k4: u32) -> mat4x4<f32> {
  return RIGHT_BLOCK;
}

fn load_sums(at: u32) -> Sums {
  return Sums(
    #for v VECTORS
    passing[at + lane + {v*SIZE}u],
    #end
  );
}

fn store_sums(at: u32, sums: Sums) {
  #for v VECTORS
  passing[at + lane + {v*SIZE}u] = sums.v{v};
  #end
}
`;

/** W as it is staged: column by column, or step by step. */
const BLOCKS = {
  col_major: `transpose(mat4x4<f32>(
    #for c 4
    vec4<f32>(tile_w[at + (column + {c}u) * {W_STRIDE}u + k4]),
    #end
  ))`,
  row_major: `mat4x4<f32>(
    #for c 4
    vec4<f32>(tile_w[at + (4u * k4 + {c}u) * {W_STRIDE}u + column / 4u]),
    #end
  )`,
};

/** What of a kernel's text defines the matrices of a subgroup. */
const MATRICES = /^alias Left = subgroup_matrix_left[^]*?^fn store_sums\(.*$/m;

/** A kernel's text with the emulation in place of the matrices of a subgroup; one that has none stays as it is. */
function emulated(text: string): string {
  if (!MATRICES.test(text)) return text;
  const number = (pattern: RegExp) => Number(text.match(pattern)![1]);
  const SIZE = number(/lane = thread % (\d+)u/), X_STRIDE = number(/&tile_x, at, (\d+)u/);
  const W_STRIDE = number(/right_at\(column, chunk\), (\d+)u/);
  const order = /<Right, (\w+)>/.exec(text)![1] as keyof typeof BLOCKS;
  const own = TEXT.replace("RIGHT_BLOCK", BLOCKS[order]);
  return text.replace(MATRICES, unroll(own, { SIZE, VECTORS: 64 / SIZE, X_STRIDE, W_STRIDE }));
}

/** Invocations of what stands for a subgroup: with few each has many sums, and software adapters compile for long. */
const SUBGROUP_SIZE = 32;

/** A device in the forms of a GPU whose subgroups multiply matrices, which it emulates. */
export function withEmulatedMatrices({ device, facts }: Gpu): Gpu {
  const createShaderModule = device.createShaderModule.bind(device);
  device.createShaderModule = (given) => createShaderModule({ ...given, code: emulated(given.code) });
  const features = [...facts.features, SUBGROUP_MATRIX];
  return { device, facts: { ...facts, features, software: false }, subgroup_size: SUBGROUP_SIZE };
}
