// Powers of two that bring the rows of a product's operands into the range of f16, for GPUs: a workgroup owns a row.
//
//   scales[n] = 2^k with 2^14 ≤ 2^k · max(|x[n, :]|, |lora_scale · u[n, :]|) < 2^15, for k from −126 to 100
//
//   params  rows N, vectors of a row of x, and of u; lora_scale
//   x       [N, C] f32   in
//   u       [N, R] f32   in, or unused with no vectors
//   scales  [N]    f32   out, overwritten
//
// A row of zeros gets 2^100, which no sum that y holds brings above the largest f32; one with a number that is not finite
// gets 2^−114.
// Dispatch: N workgroups, wrapped into y. `threads`, a power of two, is linked.

struct Params { rows: u32, vectors: u32, u_vectors: u32, lora_scale: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> u: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> scales: array<f32>;

var<workgroup> group_largest: array<vec4<u32>, threads>;

// Numbers without a sign are in the order of their bits, and one that is not finite is the largest.
fn magnitude(v: vec4<f32>) -> vec4<u32> { return bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu); }

@compute @workgroup_size(threads)
fn main(
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) thread: u32,
) {
  let n = group.x + group.y * groups.x;
  if n >= params.rows { return; }
  var largest = vec4<u32>();
  for (var i = thread; i < params.vectors; i += threads) {
    largest = max(largest, magnitude(x[n * params.vectors + i]));
  }
  for (var i = thread; i < params.u_vectors; i += threads) {
    largest = max(largest, magnitude(params.lora_scale * u[n * params.u_vectors + i]));
  }
  group_largest[thread] = largest;
  for (var step = threads / 2u; step > 0u; step /= 2u) {
    workgroupBarrier();
    if thread < step { group_largest[thread] = max(group_largest[thread], group_largest[thread + step]); }
  }
  if thread == 0u {
    let all = max(group_largest[0].xy, group_largest[0].zw);
    // An exponent e of the largest stands for 2^(e − 127), and that of the scale likewise.
    let exponent = i32(max(all.x, all.y) >> 23u);
    scales[n] = bitcast<f32>(u32(clamp(268 - exponent, 1, 227)) << 23u);
  }
}
