// Adds the sums of a product's chunks in order, as matmul_tiles.wgsl does where a workgroup walks them.
//
//   y[i] = (y[i] +) p_0[i] + p_1[i] + … (+ residual[i])
//
//   params    count: numbers of y; chunks; addend: 1 residual, 2 y itself, or both
//   partials  [chunks, N, columns] f32   in
//   residual  [N, columns] f32   in
//   y         [N, columns] f32   out
//
// A thread adds one number, because y often is small. BATCH loads do not wait for each other.
// Dispatch: ceil(count / 64) workgroups, continued in y; a template for unroll.ts.

struct Params { count: u32, chunks: u32, addend: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read> residual: array<f32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(64)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let at = (group.x + group.y * groups.x) * 64u + thread;
  if at >= params.count { return; }
  var sum = partials[at];
  if (params.addend & 2u) != 0u { sum = y[at] + sum; }
  let last = params.chunks - 1u;
  for (var chunk = 1u; chunk <= last; chunk += {BATCH}u) {
    #for k BATCH
    let p{k} = partials[min(chunk + {k}u, last) * params.count + at];
    #end
    #for k BATCH
    if chunk + {k}u <= last { sum += p{k}; }
    #end
  }
  if (params.addend & 1u) != 0u { sum = residual[at] + sum; }
  y[at] = sum;
}
