/** The rules by which a run's metrics are judged. docs/reference/health.md is written from these declarations. */

/** How serious a broken rule is. */
export type HealthLevel = "warning" | "critical";

/**
 * The value that a rule compares with its threshold, after each update:
 * `mean`: the mean of the last `window` updates; fewer at a run's start.
 * `share_of_start`: that mean divided by the mean of the run's first `window` updates, once they are 2 · `window` apart.
 * `share_of_median`: the newest value divided by the median of the `window` before it.
 * `fall_from_best`: how much lower the newest value is than the best so far.
 * `rise_from_best`: the newest value divided by the smallest so far, minus 1.
 */
type HealthMeasure =
  | "mean"
  | "share_of_start"
  | "share_of_median"
  | "fall_from_best"
  | "rise_from_best";

export interface HealthRule {
  rule: string;
  /** The metric; several are added. An update with several steps counts with their mean. */
  metrics: readonly string[];
  measure: HealthMeasure;
  /** Updates. */
  window: number;
  /** Broken above or below the threshold; at the threshold it holds. */
  breaks: "above" | "below";
  threshold: number;
  level: HealthLevel;
  /** Only the size of the mean counts, not its sign. */
  absolute?: boolean;
  /** What to do about it. */
  advice: string;
}

/** All rules. */
export const HEALTH_RULES: readonly HealthRule[] = [
  {
    rule: "truncated",
    metrics: ["agent/truncated_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.2,
    level: "warning",
    advice:
      "Many attempts hit a limit. Raise the limit that stop/… names (max_turns, max_new_tokens_per_turn, " +
      'max_trajectory_tokens, max_rollout_secs), or set agent.truncation = "min_reward".',
  },
  {
    rule: "failed",
    metrics: ["agent/failed_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.1,
    level: "warning",
    advice:
      "Attempts end because a tool or the environment fails. The update events name the first failure; repair it, " +
      "because above agent.max_dropped_fraction the run stops.",
  },
  {
    rule: "verification_failed",
    metrics: ["env/verify_failed_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.05,
    level: "warning",
    advice:
      "Verify commands end without a verdict, in untouched workspaces too. Repair them: the update events name the " +
      "first. They must exit by themselves, with a status below 126, also where a solution is still missing.",
  },
  {
    rule: "sandboxes_lost",
    metrics: ["env/lost_sandbox_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.05,
    level: "warning",
    advice:
      "Containers end before their attempts, whose work is then lost. If honest commands need more memory, raise " +
      "agent.environment.limits.memory_mb. If the machine has less than memory_mb times pool.max_live, lower " +
      "agent.environment.pool.max_live.",
  },
  {
    rule: "groups_dropped",
    metrics: ["group/dropped_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.25,
    level: "warning",
    advice:
      "Groups lose so many attempts that nothing can be compared. See which of stop/… and agent/failed_fraction rises.",
  },
  {
    rule: "tool_calls_falling",
    metrics: ["agent/tool_calls_per_turn"],
    measure: "share_of_start",
    window: 5,
    breaks: "below",
    threshold: 0.5,
    level: "critical",
    advice:
      "The model stops using its tools, which comes before a collapse. Lower training.lr or set agent.max_update_kl, " +
      "and continue from a checkpoint before the fall.",
  },
  {
    rule: "malformed_calls",
    metrics: ["agent/malformed_call_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.1,
    level: "warning",
    advice:
      "The model writes calls that cannot be read. If it always did, warm it up with sft on collected traces; if this " +
      "is new, lower training.lr.",
  },
  {
    rule: "groups_degenerate",
    metrics: ["group/degenerate_fraction"],
    measure: "mean",
    window: 10,
    breaks: "above",
    threshold: 0.5,
    level: "warning",
    advice:
      "In most groups all attempts earn the same, so nothing is learned from them. Take scenarios that are neither too " +
      "easy nor too hard, a larger agent.group_size, or finer rewards.",
  },
  {
    rule: "too_easy",
    metrics: ["group/all_pass_fraction"],
    measure: "mean",
    window: 10,
    breaks: "above",
    threshold: 0.8,
    level: "warning",
    advice: "Almost all groups pass with every attempt. Take harder scenarios.",
  },
  {
    rule: "too_hard",
    metrics: ["group/all_fail_fraction"],
    measure: "mean",
    window: 10,
    breaks: "above",
    threshold: 0.8,
    level: "warning",
    advice:
      "Almost all groups fail with every attempt. Take easier scenarios, give rewards for parts of a task, or train first " +
      "with sft on collected traces and start from that adapter (lora.init_adapter).",
  },
  {
    rule: "reward_failed",
    metrics: ["reward/failed_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.1,
    level: "warning",
    advice:
      "The reward program ends, is too slow, or writes something else than a reward. The update events name the first " +
      "failure; the run's log has what the program wrote to standard error.",
  },
  {
    rule: "judge_degenerate",
    metrics: ["judge/degenerate_group_fraction"],
    measure: "mean",
    window: 10,
    breaks: "above",
    threshold: 0.5,
    level: "warning",
    advice:
      "The judge scores all attempts of a group alike. Make the rubric more specific, and measure the judge with " +
      "`svc judge eval`.",
  },
  {
    rule: "judge_failed",
    metrics: ["judge/failed_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.1,
    level: "warning",
    advice:
      "The judge does not answer, or not with a score for each attempt. Look at its limits and its model.",
  },
  {
    rule: "entropy_collapse",
    metrics: ["policy/entropy"],
    measure: "share_of_start",
    window: 5,
    breaks: "below",
    threshold: 0.2,
    level: "critical",
    advice:
      "The policy tries hardly anything new any more, so groups will soon be degenerate. Lower training.lr, raise " +
      "agent.clip_high, or take more varied scenarios.",
  },
  {
    rule: "far_from_reference",
    metrics: ["kl/reference"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.2,
    level: "warning",
    advice:
      "The policy is far from its reference, in nats per token. Lower training.lr or raise agent.kl_coefficient if it " +
      "shall stay close.",
  },
  {
    rule: "updates_shortened",
    metrics: ["optimizer/step_scale"],
    measure: "mean",
    window: 5,
    breaks: "below",
    threshold: 0.25,
    level: "warning",
    advice:
      "agent.max_update_kl takes back most of each step: the learning rate is several times too high. Lower training.lr.",
  },
  {
    rule: "sampler_differs_mean",
    metrics: ["kl/sample_train_v1"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.01,
    level: "critical",
    absolute: true,
    advice:
      "Sampler and trainer give the same tokens different probabilities, so the ratios are wrong. Set model.compute and " +
      'model.kv to "f32", and report it: they are made to agree.',
  },
  {
    rule: "sampler_differs_spread",
    metrics: ["kl/sample_train_v2"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.01,
    level: "critical",
    advice: "As sampler_differs_mean, for single tokens in both directions.",
  },
  {
    rule: "ratios_clipped",
    metrics: ["ratio/clipped_fraction_low", "ratio/clipped_fraction_high"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.3,
    level: "warning",
    advice:
      "Many tokens have no gradient because their ratio is clipped. Take fewer optimiser steps per update, a lower " +
      "training.lr, or the clip range that belongs to agent.importance_sampling_level.",
  },
  {
    rule: "gradients_clipped",
    metrics: ["optimizer/clip_hit"],
    measure: "mean",
    window: 20,
    breaks: "above",
    threshold: 0.8,
    level: "warning",
    advice:
      "Almost every step is cut to training.max_grad_norm, so its size no longer follows the gradient. Raise the limit, or " +
      "look for rows or rewards of unusual size.",
  },
  {
    rule: "gradient_spike",
    metrics: ["optimizer/grad_norm"],
    measure: "share_of_median",
    window: 20,
    breaks: "above",
    threshold: 10,
    level: "warning",
    advice:
      "A gradient far larger than those before. Once is harmless with training.max_grad_norm; repeated, lower training.lr " +
      "and look at the rows or groups of that update.",
  },
  {
    rule: "eps_dominated",
    metrics: ["optimizer/eps_dominated_fraction"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 0.5,
    level: "warning",
    advice:
      "The gradients of most parameters are below training.eps, so they hardly move. Lower training.eps, or raise the " +
      "gradients' scale with smaller limits of turns and tokens.",
  },
  {
    rule: "pairs_confused",
    metrics: ["preference/accuracy"],
    measure: "mean",
    window: 20,
    breaks: "below",
    threshold: 0.5,
    level: "warning",
    advice:
      "The rejected completion scores higher more often than the chosen one. See that the pairs are not swapped, and " +
      "lower training.lr.",
  },
  {
    rule: "loss_rising",
    metrics: ["loss/sft"],
    measure: "share_of_start",
    window: 20,
    breaks: "above",
    threshold: 1.1,
    level: "critical",
    advice: "The loss is above that of the start. Lower training.lr, or give it warmup_steps.",
  },
  {
    rule: "heldout_falls",
    metrics: ["eval/pass_rate"],
    measure: "fall_from_best",
    window: 1,
    breaks: "above",
    threshold: 0.1,
    level: "warning",
    advice:
      'Held-out scenarios pass less often than at the best evaluation. Keep that adapter (output.adapter = "best"), set ' +
      "evaluation.patience, and compare the evaluations to see whether chance explains it.",
  },
  {
    rule: "heldout_loss_rises",
    metrics: ["eval/loss"],
    measure: "rise_from_best",
    window: 1,
    breaks: "above",
    threshold: 0.05,
    level: "warning",
    advice:
      'The held-out loss rises while training continues: the run overfits. Keep the best adapter (output.adapter = "best"), ' +
      "set evaluation.patience, or take fewer epochs.",
  },
  {
    rule: "heldout_failed",
    metrics: ["eval/failed_fraction"],
    measure: "mean",
    window: 1,
    breaks: "above",
    threshold: 0.05,
    level: "warning",
    advice:
      "Held-out attempts fail for reasons other than the model's, so the pass rate is too low by up to this share.",
  },
  {
    rule: "waits_for_environments",
    metrics: ["env/acquire_ms_mean"],
    measure: "mean",
    window: 5,
    breaks: "above",
    threshold: 10_000,
    level: "warning",
    advice:
      "Attempts wait long for an environment, in milliseconds. Raise agent.environment.pool.max_live if the machine has " +
      "room, or lower agent.concurrent_rollouts.",
  },
];
