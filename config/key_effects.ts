/** What changing a key of the configuration means for a fork: a run that starts from a checkpoint of another one. */

/** The effect of a key. */
export interface KeyEffect {
  /**
   * `never`: it names, places, observes or paces a run, and changes no byte; a fork may change it. `extends`: a fork may
   * change it, because the training up to the checkpoint stays the same. `rescales`: like `extends`, with a warning, because
   * the scale of the gradient changes. `trains`: it determines the training.
   */
  changes: "never" | "extends" | "rescales" | "trains";
  /** Whether it determines what an evaluation measures: its data, its samples, and the limits of its attempts. */
  measures?: true;
}

const NEVER = { changes: "never" } as const;
const EXTENDS = { changes: "extends" } as const;
const RESCALES = { changes: "rescales" } as const;
const TRAINS = { changes: "trains" } as const;
const MEASURES = { changes: "extends", measures: true } as const;

/** By dotted key, or by section for all of its keys; the longest name counts. */
export const KEY_EFFECTS: Readonly<Record<string, KeyEffect>> = {
  "run.algorithm": TRAINS,
  "run.name": NEVER,
  "run.seed": TRAINS,
  "run.directory": NEVER,
  "run.record": NEVER,
  "model": TRAINS,
  "output": NEVER,
  "lora": TRAINS,
  "sft": TRAINS,
  "preference": TRAINS,
  "training.ctx": TRAINS,
  "training.lr": EXTENDS,
  "training.epochs": EXTENDS,
  "training.updates": EXTENDS,
  "training.max_minutes": TRAINS,
  "training.batch_tokens": TRAINS,
  "training.micro_batch_tokens": TRAINS,
  "training.loss_chunk_rows": TRAINS,
  "training.offload_optimizer": TRAINS,
  "training.lr_scheduler": TRAINS,
  "training.warmup_steps": TRAINS,
  "training.weight_decay": TRAINS,
  "training.beta1": TRAINS,
  "training.beta2": TRAINS,
  "training.eps": TRAINS,
  "training.max_grad_norm": TRAINS,
  "training.gradient_checkpointing": TRAINS,
  "training.max_gpu_duty_cycle": NEVER,
  "agent.scenarios": TRAINS,
  "agent.updates": EXTENDS,
  "agent.scenarios_per_update": TRAINS,
  "agent.group_size": TRAINS,
  "agent.max_turns": { ...RESCALES, measures: true },
  "agent.max_new_tokens_per_turn": { ...RESCALES, measures: true },
  "agent.max_rollout_secs": TRAINS,
  "agent.max_trajectory_tokens": { ...RESCALES, measures: true },
  "agent.end_on_no_tool_call": TRAINS,
  "agent.max_failed_turns": TRAINS,
  "agent.system_suffix": TRAINS,
  "agent.template_variables": TRAINS,
  "agent.temperature": TRAINS,
  // Sampling depends on positions only, so concurrency changes no byte.
  "agent.concurrent_rollouts": NEVER,
  "agent.truncation": TRAINS,
  "agent.max_dropped_fraction": TRAINS,
  "agent.advantage": TRAINS,
  "agent.importance_sampling_level": TRAINS,
  "agent.clip_low": RESCALES,
  "agent.clip_high": RESCALES,
  "agent.kl_coefficient": RESCALES,
  "agent.kl_reference": RESCALES,
  "agent.max_update_kl": RESCALES,
  "agent.epochs_per_update": TRAINS,
  "agent.optimizer_steps_per_update": TRAINS,
  "agent.old_logprobs": TRAINS,
  "agent.sampler_correction": TRAINS,
  "agent.sampler_correction_cap": TRAINS,
  "agent.overlong_penalty": TRAINS,
  "agent.dynamic_sampling": TRAINS,
  "agent.reward": TRAINS,
  "agent.reward.cwd": NEVER,
  "agent.judge_failure": TRAINS,
  "agent.mcp_config": TRAINS,
  "agent.environment": TRAINS,
  "agent.environment.pool.max_live": NEVER,
  "agent.judge": TRAINS,
  "agent.judge.cache_path": NEVER,
  "agent.mcp_servers": TRAINS,
  "agent.scenario_generation": TRAINS,
  "agent.collect_api": TRAINS,
  "evaluation.data": MEASURES,
  "evaluation.every_updates": EXTENDS,
  "evaluation.max_examples": MEASURES,
  "evaluation.samples_per_scenario": MEASURES,
  "evaluation.temperature": MEASURES,
  "evaluation.seed": MEASURES,
  "evaluation.patience": EXTENDS,
  "evaluation.min_delta": EXTENDS,
  "checkpoint": NEVER,
  "observe": NEVER,
  "metrics": NEVER,
};

/** The name in the table that covers a key: its own, or that of the nearest section; null when none does. */
export function coveringName(key: string): string | null {
  for (let name = key; name !== ""; name = name.slice(0, Math.max(0, name.lastIndexOf(".")))) {
    if (Object.hasOwn(KEY_EFFECTS, name)) return name;
  }
  return null;
}

/** The effect of a key. One that is not in the table is of another build, and may train. */
export function effectOf(key: string): KeyEffect {
  const name = coveringName(key);
  return name === null ? TRAINS : KEY_EFFECTS[name]!;
}
