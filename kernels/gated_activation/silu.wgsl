// The activation silu(z) = z · s with s = 1 / (1 + exp(−z)), and its derivative. `item` is linked.
//
// Below −88 the exponential would exceed f32; silu is 0 there in f32.

fn activate(z: item) -> item { return z / (1.0 + exp(min(-z, item(88.0)))); }

// d · silu(z)
fn times_activation(d: item, z: item) -> item {
  let s = 1.0 / (1.0 + exp(min(-z, item(88.0))));
  return d * z * s;
}

// d · silu'(z)
fn times_slope(d: item, z: item) -> item {
  let s = 1.0 / (1.0 + exp(min(-z, item(88.0))));
  return d * s * (1.0 + z * (1.0 - s));
}
