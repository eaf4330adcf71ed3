// AdamW, first of two steps: one thread computes the clipping factor from the gradient's norm.
//
//   norm = √norm_sq        factor = min(1, max_norm / (norm + 1e-6)), or 1 if max_norm is 0
//
//   params   max_norm
//   norm_sq  [1] f32   in
//   stats    [4] u32   out, overwritten: skipped (1 where norm_sq is not finite), 0, clipped, the factor's bits
//
// Dispatch: one workgroup of one thread.
// Source: PyTorch, torch.nn.utils.clip_grad_norm_.

struct Params { max_norm: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> norm_sq: array<f32>;
@group(0) @binding(2) var<storage, read_write> stats: array<u32>;

@compute @workgroup_size(1)
fn main() {
  // Tested by its bits, because a compiler may assume that no number is infinite.
  let finite = (bitcast<u32>(norm_sq[0]) & 0x7f800000u) != 0x7f800000u;
  let norm = sqrt(norm_sq[0]);
  let clipped = finite && params.max_norm > 0.0 && norm + 1e-6 > params.max_norm;
  stats[0] = select(1u, 0u, finite);
  stats[1] = 0u;
  stats[2] = select(0u, 1u, clipped);
  stats[3] = bitcast<u32>(select(1.0, params.max_norm / (norm + 1e-6), clipped));
}
