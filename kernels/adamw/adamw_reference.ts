/** The f64 reference of adamw, written for clarity. */

import type { AdamwOptions } from "./adamw.ts";

export interface AdamwState {
  p: Float64Array;
  m: Float64Array;
  v: Float64Array;
}

/** One step; changes the state in place. Returns the norm, and the number of √v̂ below eps. */
export function adamwReference({ p, m, v }: AdamwState, g: Float64Array, options: AdamwOptions) {
  const { lr, beta1, beta2, eps, weight_decay, max_grad_norm, step } = options;
  const norm = Math.sqrt(g.reduce((sum, x) => sum + x * x, 0));
  const factor = max_grad_norm > 0 ? Math.min(1, max_grad_norm / (norm + 1e-6)) : 1;
  let eps_dominated = 0;
  for (let i = 0; i < p.length; i++) {
    const gradient = factor * g[i]!;
    m[i] = beta1 * m[i]! + (1 - beta1) * gradient;
    v[i] = beta2 * v[i]! + (1 - beta2) * gradient ** 2;
    const m_hat = m[i]! / (1 - beta1 ** step), v_hat = v[i]! / (1 - beta2 ** step);
    if (Math.sqrt(v_hat) < eps) eps_dominated++;
    p[i] = p[i]! - lr * weight_decay * p[i]! - lr * m_hat / (Math.sqrt(v_hat) + eps);
  }
  return { norm, factor, eps_dominated };
}
