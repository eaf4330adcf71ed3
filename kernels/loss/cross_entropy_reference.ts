/** The f64 reference of cross_entropy, written for clarity. Arrays are row-major. */

export interface CrossEntropyInput {
  rows: number;
  vocabulary: number;
  logits: Float64Array;
  targets: ArrayLike<number>;
}

export function crossEntropyReference({ rows, vocabulary, logits, targets }: CrossEntropyInput) {
  const logprob = new Float64Array(rows),
    entropy = new Float64Array(rows),
    logsumexp = new Float64Array(2 * rows);
  for (let n = 0; n < rows; n++) {
    const z = logits.subarray(n * vocabulary, (n + 1) * vocabulary);
    const max = z.reduce((a, b) => Math.max(a, b), -Infinity);
    const log_sum = Math.log(z.reduce((sum, v) => sum + Math.exp(v - max), 0));
    logprob[n] = z[targets[n]!]! - max - log_sum;
    entropy[n] = z.reduce((sum, v) => {
      const log_p = v - max - log_sum;
      return v === -Infinity ? sum : sum - Math.exp(log_p) * log_p;
    }, 0);
    logsumexp.set([max, log_sum], 2 * n);
  }
  return { logprob, entropy, logsumexp };
}
