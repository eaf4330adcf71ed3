/** The learning rate of every optimiser step. */

export interface Schedule {
  learning_rate: number;
  lr_scheduler: "constant" | "linear" | "cosine";
  warmup_steps: number;
  /** The number of steps of the run; null when only `training.max_minutes` limits it. */
  total_steps: number | null;
  /** The used share of `training.max_minutes`, 0 to 1. */
  used_time: number;
}

/**
 * The rate of step s = 0, 1, …, T − 1 of a run of T steps, of which the first W = `warmup_steps` warm up, with the full
 * rate λ:
 *
 *   s < W: λ (s + 1)/W, so that the first step has λ/W and the last warm-up step has λ;
 *   s ≥ W: λ (constant), λ (1 − r) (linear) or λ (1 + cos πr)/2 (cosine), with r = (s − W)/(T − W).
 *
 * The first step after the warm-up has λ too. The last step of the run has λ/(T − W) (linear) or λ sin²(π/(2(T − W)))
 * (cosine): zero would come one step later. If W ≥ T the run ends during its warm-up, at λ T/W. Without a known T, r is
 * the used share of the time.
 */
export function learningRate(schedule: Schedule, step: number): number {
  const { learning_rate, lr_scheduler, warmup_steps, total_steps, used_time } = schedule;
  if (step < warmup_steps) return learning_rate * (step + 1) / warmup_steps;
  const used = total_steps === null
    ? used_time
    : (step - warmup_steps) / Math.max(1, total_steps - warmup_steps);
  const rest = Math.min(1, used);
  if (lr_scheduler === "linear") return learning_rate * (1 - rest);
  if (lr_scheduler === "cosine") return learning_rate * (1 + Math.cos(Math.PI * rest)) / 2;
  return learning_rate;
}
