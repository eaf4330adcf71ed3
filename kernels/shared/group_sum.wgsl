// The sum over the threads of a workgroup, in a tree. `threads`, a power of two, is linked.

var<workgroup> group_partial: array<f32, threads>;

fn group_sum(thread: u32, value: f32) -> f32 {
  group_partial[thread] = value;
  for (var step = threads / 2u; step > 0u; step /= 2u) {
    workgroupBarrier();
    if thread < step { group_partial[thread] += group_partial[thread + step]; }
  }
  workgroupBarrier();
  return group_partial[0];
}
