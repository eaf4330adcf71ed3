/** Matrices that a workgroup computes without the help of its subgroups, so that every adapter runs matmul_matrices.wgsl. */

import { defineKernel, type Kernel, kernelText } from "../kernel.ts";
import { unroll } from "../unroll.ts";
import { SUBGROUP_MATRICES_FILE } from "./matmul_matrices.ts";

/** As subgroup_matrices.wgsl: a lane has 256 / SIZE neighbouring sums of a matrix, and reads operands where they lie. */
const TEXT = `
alias Left = u32;
struct Right { column: u32, chunk: u32 }
struct Sums { v: array<f32, {256/SIZE}> }

fn load_left(at: u32) -> Left { return at; }
fn load_right(column: u32, chunk: u32) -> Right { return Right(column, chunk); }

fn multiply(left: Left, right: Right, sums: Sums) -> Sums {
  var out = sums;
  let at = right_at(right.column, right.chunk);
  for (var i = 0u; i < {256/SIZE}u; i++) {
    let element = lane * {256/SIZE}u + i;
    let row = element / 16u;
    let column = element % 16u;
    for (var k = 0u; k < 16u; k++) {
      out.v[i] += f32(tile_x[left + row * {X_STRIDE}u + k / 4u][k % 4u]) * f32(RIGHT);
    }
  }
  return out;
}

fn load_sums(at: u32) -> Sums {
  var out: Sums;
  for (var i = 0u; i < {256/SIZE}u; i++) {
    let element = lane * {256/SIZE}u + i;
    out.v[i] = passing[at + element / 4u][element % 4u];
  }
  return out;
}

fn store_sums(at: u32, sums: Sums) {
  for (var i = 0u; i < {256/SIZE}u; i++) {
    let element = lane * {256/SIZE}u + i;
    passing[at + element / 4u][element % 4u] = sums.v[i];
  }
}
`;

const emulated = new Map<Kernel, Kernel>();

/** The kernel with the emulation in place of the matrices of a subgroup; one that has none is returned as it is. */
export function withEmulatedMatrices<K extends Kernel>(kernel: K): K {
  if (typeof kernel.wgsl === "string") return kernel;
  const at = kernel.wgsl.findIndex(({ file }) => file === SUBGROUP_MATRICES_FILE);
  if (at < 0) return kernel;
  if (!emulated.has(kernel)) {
    const text = kernel.wgsl[at]!.text, whole = kernelText(kernel);
    const number = (pattern: RegExp, text: string) => Number(text.match(pattern)![1]);
    const sizes = {
      X_STRIDE: number(/&tile_x, at, (\d+)u/, text),
      W_STRIDE: number(/right_at\(column, chunk\), (\d+)u/, text),
      SIZE: number(/lane = thread % (\d+)u/, whole),
    };
    const right = text.includes("col_major")
      ? "tile_w[at + column * {W_STRIDE}u + k / 4u][k % 4u]"
      : "tile_w[at + k * {W_STRIDE}u + column / 4u][column % 4u]";
    const part = { file: "emulated_matrices", text: unroll(TEXT.replace("RIGHT", right), sizes) };
    emulated.set(kernel, defineKernel({ ...kernel, wgsl: kernel.wgsl.with(at, part) }));
  }
  return emulated.get(kernel)! as K;
}
