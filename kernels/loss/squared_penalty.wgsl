// The penalty p(x) = (x − 1 / (2β))² of preference_loss.wgsl, and its derivative.

fn penalty(x: f32) -> Penalty {
  let h = x - 0.5 / params.beta;
  return Penalty(h * h, 2.0 * h);
}
