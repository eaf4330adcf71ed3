/** The learning rate of every optimiser step. */

export interface Schedule {
  learning_rate: number;
  lr_scheduler: "constant" | "linear" | "cosine";
  warmup_steps: number;
  /** Steps of the whole run. */
  total_steps: number;
}

/**
 * The rate of a step, counted from 0: over `warmup_steps` it rises linearly to the full rate, which the last of them
 * has; then, with r the share of the remaining steps that lie behind, it is full (constant), times 1 − r (linear) or
 * times (1 + cos πr)/2 (cosine). It would reach zero at the step after the last.
 */
export function learningRate(schedule: Schedule, step: number): number {
  const { learning_rate, lr_scheduler, warmup_steps, total_steps } = schedule;
  if (step < warmup_steps) return learning_rate * (step + 1) / warmup_steps;
  const rest = Math.min(1, (step - warmup_steps) / Math.max(1, total_steps - warmup_steps));
  if (lr_scheduler === "linear") return learning_rate * (1 - rest);
  if (lr_scheduler === "cosine") return learning_rate * (1 + Math.cos(Math.PI * rest)) / 2;
  return learning_rate;
}
