// A soft cap on scores or logits. `item` and the constant `cap` are linked.
//
//   soft_cap(x) = cap · tanh(x / cap)        d soft_cap(x) / d x = 1 − (soft_cap(x) / cap)²
//
// Source: Gemma Team, "Gemma 2" (2024), section 2.

// tanh(z) = sign(z) · (1 − e) / (1 + e) with e = exp(−2 · |z|), which cannot overflow. WGSL's own tanh may, and is only
// accurate to 1e-5.
fn soft_cap(x: item) -> item {
  let e = exp(abs(x) * (-2.0 / cap));
  return sign(x) * (cap * (1.0 - e) / (1.0 + e));
}

// The gradient with respect to x; d is the gradient of the capped number.
fn soft_cap_gradient(d: item, capped: item) -> item {
  let t = capped * (1.0 / cap);
  return d * (1.0 - t * t);
}
