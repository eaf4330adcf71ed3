// The penalty p(x) = −log σ(x) of preference_loss.wgsl, and its derivative −σ(−x). Neither overflows.

fn penalty(x: f32) -> Penalty {
  let e = exp(-abs(x));
  return Penalty(max(-x, 0.0) + log(1.0 + e), -(select(e, 1.0, x < 0.0) / (1.0 + e)));
}
