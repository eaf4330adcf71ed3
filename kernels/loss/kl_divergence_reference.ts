/** The f64 reference of kl_divergence, written for clarity. Arrays are row-major. */

export interface KlDivergenceInput {
  rows: number;
  vocabulary: number;
  p_logits: Float64Array;
  q_logits: Float64Array;
}

/** Σ_v p log(p / q) of every row; a token that both mask adds nothing. */
export function klDivergenceReference(
  { rows, vocabulary, p_logits, q_logits }: KlDivergenceInput,
): Float64Array {
  const logSoftmax = (z: Float64Array) => {
    const top = z.reduce((a, b) => Math.max(a, b), -Infinity);
    const log_sum = top + Math.log(z.reduce((sum, v) => sum + Math.exp(v - top), 0));
    return z.map((v) => v - log_sum);
  };
  return Float64Array.from({ length: rows }, (_, n) => {
    const row = (logits: Float64Array) => logSoftmax(logits.subarray(n * vocabulary, (n + 1) * vocabulary));
    const log_p = row(p_logits), log_q = row(q_logits);
    return log_p.reduce((sum, lp, v) => lp === -Infinity ? sum : sum + Math.exp(lp) * (lp - log_q[v]!), 0);
  });
}
