/**
 * The f64 reference of policy_loss, written for clarity. Constants of the gradient (`sg` in the formulas) are separate
 * arguments, so that central differences of `loss` see only the differentiated parts.
 */

export interface PolicyRow {
  logprob: number;
  /** log_ratio of the token or of its trajectory, before the clamp. */
  log_ratio: number;
  reference_logprob: number;
  advantage: number;
  weight: number;
}

export interface PolicyScalars {
  clip_low: number;
  clip_high: number;
  kl_coefficient: number;
  normalizer: number;
}

const clamp = (x: number, low: number, high: number) => Math.min(Math.max(x, low), high);

/** The ratio, its position relative to the clip range, and k3 of a row. */
export function policyRowReference(row: PolicyRow, { clip_low, clip_high }: PolicyScalars) {
  const ratio = Math.exp(clamp(row.log_ratio, -20, 20));
  const d = clamp(row.reference_logprob - row.logprob, -20, 20);
  const above = row.advantage > 0 && ratio > 1 + clip_high, below = row.advantage < 0 && ratio < 1 - clip_low;
  return { ratio, clipped: above ? 1 : below ? -1 : 0, k3: Math.expm1(d) - d };
}

/** The row's loss, with `kl_ratio` (sg[w]) as factor of the KL term. */
export function policyLossReference(row: PolicyRow, scalars: PolicyScalars, kl_ratio: number): number {
  const { clip_low, clip_high, kl_coefficient, normalizer } = scalars;
  const { ratio, k3 } = policyRowReference(row, scalars);
  const policy = -Math.min(ratio * row.advantage, clamp(ratio, 1 - clip_low, 1 + clip_high) * row.advantage);
  return (row.weight * policy + kl_coefficient * kl_ratio * k3) / normalizer;
}
