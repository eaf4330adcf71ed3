// The matrices of matmul_matrices.wgsl as those of a subgroup, which Dawn has (chromium_experimental_subgroup_matrix):
// operands in f16, sums in f32. A template for unroll.ts; the layout of W is linked as w_layout.

alias Left = subgroup_matrix_left<f16, 16, 16>;
alias Right = subgroup_matrix_right<f16, 16, 16>;
alias Sums = subgroup_matrix_result<f32, 16, 16>;

fn load_left(at: u32) -> Left { return subgroupMatrixLoad<Left, row_major>(&tile_x, at, {X_STRIDE}u); }

fn load_right(column: u32, chunk: u32) -> Right {
  return subgroupMatrixLoad<Right, W_LAYOUT>(&tile_w, right_at(column, chunk), {W_STRIDE}u);
}

fn multiply(left: Left, right: Right, sums: Sums) -> Sums {
  return subgroupMatrixMultiplyAccumulate(left, right, sums);
}

fn load_sums(at: u32) -> Sums { return subgroupMatrixLoad<Sums, row_major>(&passing, at, 4u); }

fn store_sums(at: u32, sums: Sums) { subgroupMatrixStore<row_major>(&passing, at, sums, 4u); }
