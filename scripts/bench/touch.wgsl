// Minimal work, to measure the cost of a dispatch.
//
//   y[0] ← y[0] + value
//
//   params  value
//   y       [1] f32     in and out: each dispatch waits for the previous one
//
// Dispatch: one workgroup of one thread.

struct Params { value: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;

@compute @workgroup_size(1)
fn main() { y[0] += params.value; }
