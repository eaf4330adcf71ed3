// The loss of pairs of completions, a chosen one w and a rejected one l, and its derivative with respect to each
// log-probability: a thread owns a pair and adds its rows in order. The terms in brackets are those that a loss may have.
//
//   v(y) = Σ_{q ∈ y} (logprob[q] [− reference_logprob[q]]) [/ |y|]
//   s(y) = [β] (v [− log(1 − exp(v))])
//   loss of a pair = [λ] p(s(w) − s(l) [− γ]) [− w̄]      w̄ the mean of w's logprob
//
//   results[0, first row of w] = loss / pairs of the step, 0 in the other rows; results[1, r] = s of the row's completion
//   g[r] = ∂(Σ losses / pairs of the step) / ∂logprob[r]
//
//   params             pairs P of the dispatch, all rows R, beta β, gamma γ, lambda λ, normalizer: pairs of the step
//   logprob            [R] f32      in
//   reference_logprob  [R] f32      in, read by losses with a reference
//   ranges             [P, 3] u32   in: first row of w, first row of l, the row after the last of l
//   g                  [R] f32      out, overwritten for the rows of the pairs
//   results            [4, R] f32   out, overwritten for the rows of the pairs; the last two are 0
//
// Dispatch: ceil(P / threads) workgroups. Linked: `threads`, the terms `has_reference`, `is_mean`, `is_odds`, `is_scaled`,
// `has_margin` and `has_sft_term`, and the function `penalty`.
// Source: Rafailov et al., "DPO" (2023), equation 7; Azar et al., "IPO" (2023), equation 17; Meng et al., "SimPO" (2024),
// equation 6; Hong et al., "ORPO" (2024), equations 6 and 7.

struct Params { pairs: u32, total: u32, beta: f32, gamma: f32, lambda: f32, normalizer: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logprob: array<f32>;
@group(0) @binding(2) var<storage, read> reference_logprob: array<f32>;
@group(0) @binding(3) var<storage, read> ranges: array<u32>;
@group(0) @binding(4) var<storage, read_write> g: array<f32>;
@group(0) @binding(5) var<storage, read_write> results: array<f32>;

// The odds of a nearly certain completion are unbounded, so 1 − exp(v) is at least this.
const least_doubt = 1e-6;

struct Scored { score: f32, slope: f32, mean: f32 }

// p(x) and its derivative.
struct Penalty { value: f32, slope: f32 }

// A product, rounded to f32. A compiler may leave out this rounding when a sum follows; it does not look through a choice
// that it cannot decide. So the difference of two scores is that of the scores in `results`.
fn rounded(product: f32) -> f32 { return select(product, 0.0, params.pairs == 0u); }

// The score of rows first … end − 1, and its derivative with respect to each of their log-probabilities.
fn scored(first: u32, end: u32) -> Scored {
  var sum = 0.0;
  var reference = 0.0;
  for (var r = first; r < end; r++) {
    sum += logprob[r];
    if has_reference { reference += reference_logprob[r]; }
  }
  let count = f32(end - first);
  var score = sum - reference;
  var divisor = 1.0;
  if is_mean {
    score = score / count;
    divisor = count;
  }
  if is_odds {
    let doubt = max(1.0 - exp(score), least_doubt);
    score -= log(doubt);
    divisor *= doubt;
  }
  var factor = 1.0;
  if is_scaled {
    factor = params.beta;
    score = rounded(params.beta * score);
  }
  return Scored(score, factor / divisor, sum / count);
}

fn write(first: u32, end: u32, score: f32, slope: f32) {
  for (var r = first; r < end; r++) {
    g[r] = slope / params.normalizer;
    results[r] = 0.0;
    results[params.total + r] = score;
    results[2u * params.total + r] = 0.0;
    results[3u * params.total + r] = 0.0;
  }
}

@compute @workgroup_size(threads)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x >= params.pairs { return; }
  let chosen = ranges[3u * id.x];
  let rejected = ranges[3u * id.x + 1u];
  let end = ranges[3u * id.x + 2u];
  let w = scored(chosen, rejected);
  let l = scored(rejected, end);
  var x = w.score - l.score;
  if has_margin { x -= params.gamma; }
  let p = penalty(x);
  var loss = p.value;
  var d_x = p.slope;
  var d_mean = 0.0;
  if has_sft_term {
    loss = params.lambda * p.value - w.mean;
    d_x = params.lambda * p.slope;
    d_mean = -1.0 / f32(rejected - chosen);
  }
  write(chosen, rejected, w.score, d_x * w.slope + d_mean);
  write(rejected, end, l.score, -d_x * l.slope);
  results[chosen] = loss / params.normalizer;
}
