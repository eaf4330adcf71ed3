/** The accepted range of every numeric key of a run configuration. */

/** `min` and `max` are inclusive unless `above` or `below` says otherwise. */
export interface Range {
  min: number;
  max: number;
  /** The value must be greater than `min`. */
  above?: true;
  /** The value must be less than `max`. */
  below?: true;
}

const MAX_UPDATES = 10_000_000;
const MAX_SEED = Number.MAX_SAFE_INTEGER;
/** Tokens of one sequence. */
const MAX_CONTEXT = 1 << 20;
const MIN_CONTEXT = 16;
const SECONDS_PER_WEEK = 604_800;

/** The range of every numeric key, by its dotted name. */
export const LIMITS = {
  "run.seed": { min: 0, max: MAX_SEED },
  "lora.rank": { min: 1, max: 1024 },
  "lora.alpha": { min: 0, above: true, max: 65_536 },
  "lora.dropout": { min: 0, max: 1, below: true },
  "lora.seed": { min: 0, max: MAX_SEED },
  "preference.beta": { min: 0, above: true, max: 100 },
  "preference.gamma": { min: 0, max: 100 },
  "preference.lambda": { min: 0, max: 100 },
  "training.ctx": { min: MIN_CONTEXT, max: MAX_CONTEXT },
  "training.lr": { min: 0, above: true, max: 1 },
  "training.epochs": { min: 1, max: 100_000 },
  "training.updates": { min: 1, max: MAX_UPDATES },
  "training.max_minutes": { min: 0, above: true, max: 525_600 },
  "training.batch_tokens": { min: MIN_CONTEXT, max: 1 << 26 },
  "training.micro_batch_tokens": { min: MIN_CONTEXT, max: 1 << 22 },
  "training.loss_chunk_rows": { min: 1, max: 65_536 },
  "training.warmup_steps": { min: 0, max: MAX_UPDATES },
  "training.weight_decay": { min: 0, max: 10 },
  "training.beta1": { min: 0, max: 1, below: true },
  "training.beta2": { min: 0, max: 1, below: true },
  "training.eps": { min: 0, above: true, max: 1 },
  "training.max_grad_norm": { min: 0, max: 1_000_000 },
  "training.max_gpu_duty_cycle": { min: 0, above: true, max: 1 },
  "agent.updates": { min: 1, max: MAX_UPDATES },
  "agent.scenarios_per_update": { min: 1, max: 65_536 },
  "agent.group_size": { min: 2, max: 1024 },
  "agent.epochs_per_update": { min: 1, max: 100 },
  "agent.optimizer_steps_per_update": { min: 1, max: 65_536 },
  "agent.sampler_correction_cap": { min: 1, max: 1000 },
  "agent.max_turns": { min: 1, max: 10_000 },
  "agent.max_new_tokens_per_turn": { min: 1, max: MAX_CONTEXT },
  "agent.max_rollout_secs": { min: 0, max: SECONDS_PER_WEEK },
  "agent.max_trajectory_tokens": { min: MIN_CONTEXT, max: MAX_CONTEXT },
  "agent.max_dropped_fraction": { min: 0, max: 1 },
  "agent.max_failed_turns": { min: 0, max: 10_000 },
  "agent.clip_low": { min: 0, above: true, max: 1 },
  "agent.clip_high": { min: 0, above: true, max: 100 },
  "agent.kl_coefficient": { min: 0, max: 100 },
  "agent.max_update_kl": { min: 0, max: 100 },
  "agent.overlong_penalty": { min: 0, max: 1000 },
  "agent.dynamic_sampling.max_resample_factor": { min: 1, max: 100 },
  "agent.temperature": { min: 0, max: 100 },
  "agent.concurrent_rollouts": { min: 1, max: 4096 },
  "agent.reward.timeout_secs": { min: 0, above: true, max: 3600 },
  "agent.judge.max_chars": { min: 1000, max: 100_000_000 },
  "agent.judge.timeout_secs": { min: 0, above: true, max: 3600 },
  "agent.judge.max_retries": { min: 0, max: 20 },
  "agent.environment.limits.cpus": { min: 0, above: true, max: 1024 },
  "agent.environment.limits.memory_mb": { min: 16, max: 1 << 20 },
  "agent.environment.limits.exec_timeout_secs": { min: 1, max: 86_400 },
  "agent.environment.pool.max_live": { min: 1, max: 4096 },
  "agent.scenario_generation.count": { min: 1, max: 100_000 },
  "evaluation.every_updates": { min: 1, max: MAX_UPDATES },
  "evaluation.max_examples": { min: 1, max: MAX_UPDATES },
  "evaluation.samples_per_scenario": { min: 1, max: 1024 },
  "evaluation.temperature": { min: 0, max: 100 },
  "evaluation.seed": { min: 0, max: MAX_SEED },
  "evaluation.patience": { min: 1, max: 1_000_000 },
  "evaluation.min_delta": { min: 0, max: 1_000_000 },
  "checkpoint.every_updates": { min: 1, max: MAX_UPDATES },
  "checkpoint.keep": { min: 1, max: 10_000 },
  "observe.every": { min: 1, max: MAX_UPDATES },
  "observe.max_text_chars": { min: 0, max: 1_000_000_000 },
} as const satisfies Record<string, Range>;

/** The dotted name of a key with a range. */
export type NumericKey = keyof typeof LIMITS;
