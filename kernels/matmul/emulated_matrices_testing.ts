/** Matrices that a workgroup computes without the help of its subgroups, so that every adapter runs matmul_matrices.wgsl. */

import { defineKernel, type Kernel, kernelText } from "../kernel.ts";
import { unroll } from "../unroll.ts";
import { SUBGROUP_MATRICES_FILE } from "./matmul_matrices.ts";

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
    let w = low_rank_at(right.column + 4u * (lane % 4u), 4u * right.chunk + k4);
    #for v VECTORS
    out.v{v} = add_low_rank(out.v{v}, vec4<f32>(tile_x[left + passing_at({v}u).x * {X_STRIDE}u + k4]), w);
    #end
  }
  return out;
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

const emulated = new Map<Kernel, Kernel>();

/** The kernel with the emulation in place of the matrices of a subgroup; one that has none is returned as it is. */
export function withEmulatedMatrices<K extends Kernel>(kernel: K): K {
  if (typeof kernel.wgsl === "string") return kernel;
  const at = kernel.wgsl.findIndex(({ file }) => file === SUBGROUP_MATRICES_FILE);
  if (at < 0) return kernel;
  if (!emulated.has(kernel)) {
    const text = kernelText(kernel), number = (pattern: RegExp) => Number(text.match(pattern)![1]);
    const SIZE = number(/lane = thread % (\d+)u/), X_STRIDE = number(/&tile_x, at, (\d+)u/);
    const part = { file: "emulated_matrices", text: unroll(TEXT, { SIZE, VECTORS: 64 / SIZE, X_STRIDE }) };
    emulated.set(kernel, defineKernel({ ...kernel, wgsl: kernel.wgsl.with(at, part) }));
  }
  return emulated.get(kernel)! as K;
}
