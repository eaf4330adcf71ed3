// The clipped policy objective with a KL term, as a loss and as its derivative with respect to each log-probability: a
// thread owns a row.
//
//   w = exp(log_ratio)        d = reference_logprob − logprob        k3 = exp(d) − d − 1        (exponents within ±20)
//   clipped = 1 where advantage > 0 and w > 1 + clip_high, −1 where advantage < 0 and w < 1 − clip_low, else 0
//   loss = (−weight · min(w · advantage, clip(w) · advantage) + kl_coefficient · w · k3) / normalizer
//   g    = (−weight · w · advantage · 1[clipped = 0] + kl_coefficient · w · (1 − exp(d))) / normalizer
//
// The ratio in front of k3 and of its derivative is a constant: the gradient is that of KL(reference ‖ policy).
//
//   params             rows, first row, all rows R, is_log_ratio, clip_low, clip_high, kl_coefficient, normalizer
//   logprob            [R] f32      in
//   old                [R] f32      in: log_ratio where is_log_ratio is 1, else old_logprob: log_ratio = logprob − old
//   reference_logprob  [R] f32      in
//   advantage          [R] f32      in
//   weight             [R] f32      in
//   g                  [R] f32      out, overwritten for these rows
//   results            [4, R] f32   out, overwritten for these rows: loss, w, clipped, k3
//
// Dispatch: ceil(rows / 64) workgroups.
// Source: Shao et al., "DeepSeekMath" (2024), equations 3 and 4; Schulman, "Approximating KL divergence" (2020).

struct Params {
  rows: u32,
  first_row: u32,
  total: u32,
  is_log_ratio: u32,
  clip_low: f32,
  clip_high: f32,
  kl_coefficient: f32,
  normalizer: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logprob: array<f32>;
@group(0) @binding(2) var<storage, read> old: array<f32>;
@group(0) @binding(3) var<storage, read> reference_logprob: array<f32>;
@group(0) @binding(4) var<storage, read> advantage: array<f32>;
@group(0) @binding(5) var<storage, read> weight: array<f32>;
@group(0) @binding(6) var<storage, read_write> g: array<f32>;
@group(0) @binding(7) var<storage, read_write> results: array<f32>;

const limit = 20.0;

// exp(d) − d − 1, by its series near 0, where the difference would lose all digits.
fn exp_rest(d: f32) -> f32 {
  if abs(d) > 0.5 { return exp(d) - d - 1.0; }
  let tail = 1.0 + d / 5.0 * (1.0 + d / 6.0 * (1.0 + d / 7.0 * (1.0 + d / 8.0)));
  return 0.5 * d * d * (1.0 + d / 3.0 * (1.0 + d / 4.0 * tail));
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x >= params.rows { return; }
  let r = params.first_row + id.x;
  var log_ratio = old[r];
  if params.is_log_ratio == 0u { log_ratio = logprob[r] - old[r]; }
  let w = exp(clamp(log_ratio, -limit, limit));
  let a = advantage[r];
  let low = 1.0 - params.clip_low;
  let high = 1.0 + params.clip_high;
  var clipped = 0.0;
  if a > 0.0 && w > high { clipped = 1.0; }
  if a < 0.0 && w < low { clipped = -1.0; }
  let d = clamp(reference_logprob[r] - logprob[r], -limit, limit);
  let k3 = exp_rest(d);
  let policy = -weight[r] * min(w * a, clamp(w, low, high) * a);
  let d_policy = select(0.0, -weight[r] * w * a, clipped == 0.0);
  results[r] = (policy + params.kl_coefficient * w * k3) / params.normalizer;
  results[params.total + r] = w;
  results[2u * params.total + r] = clipped;
  results[3u * params.total + r] = k3;
  g[r] = (d_policy - params.kl_coefficient * w * (k3 + d)) / params.normalizer;
}
