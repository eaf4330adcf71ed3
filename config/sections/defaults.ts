/** Numbers of rules that derive unset keys. The rules' descriptions and the code that applies them read them here. */

/** The longest context when the configuration sets none. */
export const DEFAULT_CTX_CAP = 4096;

/** The default of `training.epochs` in a run that nothing else ends. */
export const DEFAULT_EPOCHS = 1;

/** An optimiser step of an algorithm with `training.batch_tokens` takes the tokens of so many full-length sequences. */
export const BATCH_SEQUENCES = 4;

/** The smallest default of `training.micro_batch_tokens`. */
export const MIN_MICRO_BATCH_TOKENS = 2048;

/** The default of `training.loss_chunk_rows`: as many rows as give so many logits, within bounds. */
export const LOSS_CHUNK = { logits: 2 ** 26, min_rows: 64, max_rows: 1024 } as const;

/** The largest default of `agent.concurrent_rollouts`. */
export const MAX_DEFAULT_CONCURRENT_ROLLOUTS = 64;

/** The defaults of `agent.clip_low` and `agent.clip_high`, by `importance_sampling_level`. */
export const DEFAULT_CLIPS = {
  token: { low: 0.2, high: 0.28 },
  sequence: { low: 3e-4, high: 4e-4 },
} as const;

/** Updates between checkpoints when `[checkpoint]` does not say. */
export const DEFAULT_CHECKPOINT_EVERY = 10;

/** The number of updates whose trajectory texts a run keeps when the server does not say. */
export const OBSERVE_TARGET_UPDATES = 100;

/** The defaults of `[agent.judge]`. */
export const JUDGE_DEFAULTS = { max_chars: 200_000, max_retries: 3 } as const;

/** The defaults of `[agent.environment.limits]` for a container. */
export const CONTAINER_DEFAULTS = { cpus: 1, memory_mb: 1024 } as const;
