// The activation gelu(z) = z/2 · (1 + tanh(u)) with u = √(2/π) · (z + 0.044715 · z³), and its derivative. `item` is
// linked. (1 + tanh(u)) / 2 is s = 1 / (1 + exp(−2u)), which cannot overflow as some devices' tanh does.
//
// Source: Hendrycks, Gimpel, "Gaussian Error Linear Units" (2016), section 2.

const two_root = 1.5957691216057308; // 2 · √(2/π)
const cubic = 0.044715;

fn gate_share(z: item) -> item {
  // Below −88 the exponential would exceed f32; gelu is 0 there in f32.
  return 1.0 / (1.0 + exp(min(-two_root * z * (1.0 + cubic * z * z), item(88.0))));
}

fn activate(z: item) -> item { return z * gate_share(z); }

// d · gelu(z)
fn times_activation(d: item, z: item) -> item { return d * z * gate_share(z); }

// d · gelu'(z)
fn times_slope(d: item, z: item) -> item {
  let s = gate_share(z);
  return d * s * (1.0 + z * (1.0 - s) * two_root * (1.0 + 3.0 * cubic * z * z));
}
