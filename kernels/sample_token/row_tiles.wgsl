// For GPUs: a workgroup owns a row and combines its threads' values in shared memory, in one order.

const row_threads = 256u;
const group_threads = 256u;

var<workgroup> of_thread: array<f32, group_threads>;

fn join_sum(v: f32, thread: u32) -> f32 {
  workgroupBarrier();
  of_thread[thread] = v;
  for (var step = group_threads / 2u; step > 0u; step /= 2u) {
    workgroupBarrier();
    if thread < step { of_thread[thread] += of_thread[thread + step]; }
  }
  workgroupBarrier();
  return of_thread[0];
}

fn join_max(v: f32, thread: u32) -> f32 {
  workgroupBarrier();
  of_thread[thread] = v;
  for (var step = group_threads / 2u; step > 0u; step /= 2u) {
    workgroupBarrier();
    if thread < step { of_thread[thread] = max(of_thread[thread], of_thread[thread + step]); }
  }
  workgroupBarrier();
  return of_thread[0];
}
