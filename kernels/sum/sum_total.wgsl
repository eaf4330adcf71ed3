// A sum of squares in one order, second of two steps: one workgroup. Its barrier costs nothing, since it runs once.
//
//   out = Σ_t partials[t]
//
//   params    T
//   partials  [T] f32   in
//   out       [1] f32   out, overwritten
//
// Dispatch: one workgroup.

struct Params { partials: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

var<workgroup> of_thread: array<f32, 64>;

@compute @workgroup_size(64)
fn main(@builtin(local_invocation_index) thread: u32) {
  var sum = 0.0;
  for (var i = thread; i < params.partials; i += 64u) { sum += partials[i]; }
  of_thread[thread] = sum;
  workgroupBarrier();
  if thread > 0u { return; }
  var total = 0.0;
  for (var i = 0u; i < 64u; i++) { total += of_thread[i]; }
  out[0] = total;
}
