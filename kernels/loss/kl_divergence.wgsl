// KL(p‖q) over the vocabulary, second of two steps: a thread adds the slices of a row, in order.
//
//   divergence = Σ_s partial[s]
//
//   params      rows, slices S, first row
//   partials    [rows, S] f32   in, of kl_divergence_partials.wgsl
//   divergence  [R] f32         out, overwritten for these rows, in nats
//
// Dispatch: ceil(rows / 64) workgroups.

struct Params { rows: u32, slices: u32, first_row: u32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> divergence: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let row = id.x;
  if row >= params.rows { return; }
  var sum = 0.0;
  for (var s = 0u; s < params.slices; s++) { sum += partials[row * params.slices + s]; }
  divergence[params.first_row + row] = sum;
}
