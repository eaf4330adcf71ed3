// A Gumbel variate of 32 random bits, precise for large values: −log(E) with the exponential variate E from the dense end
// of the floats, so that no bits give an infinity and the winners of an argmax are well resolved.
//
//   v = (bits + 0.5) · 2^−32        E = −log(1 − v), by its series where v is small        gumbel = −log(E)
//
// v stays below 1 − 2^−24: a plain f32 uniform number can be 1, and that one of 152,000 candidates would win too often.

fn gumbel(bits: vec4<u32>) -> vec4<f32> {
  let v = min((vec4<f32>(bits) + 0.5) * 2.3283064365386963e-10, vec4<f32>(0.99999994));
  let exponential = select(-log(1.0 - v), v + 0.5 * v * v, v < vec4<f32>(0.0009765625));
  return -log(exponential);
}
