// Losses of pairs of completions, a chosen one w and a rejected one l, as losses and as their derivatives with respect to
// each log-probability: a thread owns a pair and adds its rows in order.
//
//   Σy = Σ_{q ∈ y} logprob[q]      ȳ = Σy / |y|      Σy_ref, ȳ_ref likewise of reference_logprob
//   odds(y) = ȳ − log(1 − exp(ȳ))
//
//   kind  score s(y)           loss of a pair, x = s(w) − s(l)
//   0     β (Σy − Σy_ref)      −log σ(x)                          DPO
//   1     ȳ − ȳ_ref            (x − 1 / (2β))²                    IPO
//   2     β ȳ                  −log σ(x − γ)                      SimPO
//   3     odds(y)              −w̄ − λ log σ(x)                    ORPO
//
//   results[0, first row of w] = loss / pairs of the step, 0 in the other rows; results[1, r] = s of the row's completion
//   g[r] = ∂(Σ losses / pairs of the step) / ∂logprob[r]
//
//   params             pairs P of the dispatch, kind, all rows R, beta β, gamma γ, lambda λ, normalizer: pairs of the step
//   logprob            [R] f32      in
//   reference_logprob  [R] f32      in, read by DPO and IPO
//   ranges             [P, 3] u32   in: first row of w, first row of l, the row after the last of l
//   g                  [R] f32      out, overwritten for the rows of the pairs
//   results            [4, R] f32   out, overwritten for the rows of the pairs; the last two are 0
//
// Dispatch: ceil(P / 64) workgroups.
// Source: Rafailov et al., "DPO" (2023), equation 7; Azar et al., "IPO" (2023), equation 17; Meng et al., "SimPO" (2024),
// equation 6; Hong et al., "ORPO" (2024), equations 6 and 7.

struct Params { pairs: u32, kind: u32, total: u32, beta: f32, gamma: f32, lambda: f32, normalizer: f32 }

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> logprob: array<f32>;
@group(0) @binding(2) var<storage, read> reference_logprob: array<f32>;
@group(0) @binding(3) var<storage, read> ranges: array<u32>;
@group(0) @binding(4) var<storage, read_write> g: array<f32>;
@group(0) @binding(5) var<storage, read_write> results: array<f32>;

// The odds of a nearly certain completion are unbounded, so 1 − exp(ȳ) is at least this.
const least_doubt = 1e-6;

struct Scored { score: f32, slope: f32, mean: f32 }

// The score of rows first … end − 1, and its derivative with respect to each of their log-probabilities.
fn scored(first: u32, end: u32) -> Scored {
  var sum = 0.0;
  var reference = 0.0;
  for (var r = first; r < end; r++) {
    sum += logprob[r];
    reference += reference_logprob[r];
  }
  let count = f32(end - first);
  let mean = sum / count;
  switch params.kind {
    case 0u: { return Scored(params.beta * (sum - reference), params.beta, mean); }
    case 1u: { return Scored((sum - reference) / count, 1.0 / count, mean); }
    case 2u: { return Scored(params.beta * mean, params.beta / count, mean); }
    default: {
      let doubt = max(1.0 - exp(mean), least_doubt);
      return Scored(mean - log(doubt), 1.0 / (count * doubt), mean);
    }
  }
}

// −log σ(x)
fn softplus_of_minus(x: f32) -> f32 { return max(-x, 0.0) + log(1.0 + exp(-abs(x))); }

// σ(−x)
fn sigmoid_of_minus(x: f32) -> f32 {
  let e = exp(-abs(x));
  return select(e, 1.0, x < 0.0) / (1.0 + e);
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

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if id.x >= params.pairs { return; }
  let chosen = ranges[3u * id.x];
  let rejected = ranges[3u * id.x + 1u];
  let end = ranges[3u * id.x + 2u];
  let w = scored(chosen, rejected);
  let l = scored(rejected, end);
  let x = w.score - l.score;
  var loss = 0.0;
  var d_x = 0.0;
  var d_mean = 0.0;
  switch params.kind {
    case 1u: {
      let h = x - 0.5 / params.beta;
      loss = h * h;
      d_x = 2.0 * h;
    }
    case 3u: {
      loss = params.lambda * softplus_of_minus(x) - w.mean;
      d_x = -params.lambda * sigmoid_of_minus(x);
      d_mean = -1.0 / f32(rejected - chosen);
    }
    default: {
      let margin = x - select(0.0, params.gamma, params.kind == 2u);
      loss = softplus_of_minus(margin);
      d_x = -sigmoid_of_minus(margin);
    }
  }
  write(chosen, rejected, w.score, d_x * w.slope + d_mean);
  write(rejected, end, l.score, -d_x * l.slope);
  results[chosen] = loss / params.normalizer;
}
