// Measures the subgroup size as the sum of ones over a subgroup. Limits do not report the size that a driver uses, and
// kernels that broadcast between lanes are generated for that size.
//
//   size  [1] u32  out: Σ 1 over the first subgroup of 128 invocations
//
// Dispatch: one workgroup.

@group(0) @binding(0) var<storage, read_write> size: array<u32>;

@compute @workgroup_size(128)
fn main(@builtin(local_invocation_index) index: u32) {
  let lanes = subgroupAdd(1u);
  if index == 0u { size[0] = lanes; }
}
