/** Derived values: keys that are not set and have no fixed default. */

import { basename, dirname, extname, join } from "node:path";
import { PREFERENCE_LOSSES } from "../../core/preference_loss.ts";
import { algorithmKeys, type AlgorithmName, ALGORITHMS, isUnused } from "../algorithms.ts";
import type { AgentConfig, EvaluationConfig, RunConfig, TrainingConfig } from "../schema.ts";
import {
  BATCH_SEQUENCES,
  DEFAULT_CHECKPOINT_EVERY,
  DEFAULT_CLIPS,
  DEFAULT_CTX_CAP,
  DEFAULT_EPOCHS,
  LOSS_CHUNK,
  MAX_DEFAULT_CONCURRENT_ROLLOUTS,
  MIN_MICRO_BATCH_TOKENS,
  OBSERVE_TARGET_UPDATES,
} from "../sections/defaults.ts";
import { updatesLimit } from "./own_section.ts";

/** The facts beside the configuration that the rules need. */
export interface ConfigFacts {
  /** The path of the configuration file. */
  path: string;
  /** The context length that the model was trained for, in tokens. */
  context_length: number;
  /** Tokens in the model's vocabulary. */
  vocabulary: number;
  /** The shape of `lora.init_adapter`; absent without one. */
  init_adapter?: AdapterShape;
  /** The number of updates whose trajectory texts are kept: the server's key of that name. Absent: its default. */
  observe_target_updates?: number;
}

/** Keys of `[lora]` whose values are the initial adapter's, where there is one. */
export const ADAPTER_KEYS = ["rank", "alpha", "targets"] as const;

/** The shape of an adapter. A configuration that starts from the adapter uses it. */
export interface AdapterShape {
  rank: number;
  alpha: number;
  targets: RunConfig["lora"]["targets"];
}

type Filled<T, K extends keyof T> = Omit<T, K> & { [P in K]-?: NonNullable<T[P]> };

/** `[training]` with all derived keys filled in. */
export type ResolvedTraining = Filled<
  TrainingConfig,
  "ctx" | "lr" | "micro_batch_tokens" | "loss_chunk_rows" | "gradient_checkpointing"
>;
/** `[agent]` with all derived keys filled in. */
export type ResolvedAgent =
  & Filled<AgentConfig, "max_trajectory_tokens" | "clip_low" | "clip_high">
  & { concurrent_rollouts: number; overlong_penalty: number };
/** `[evaluation]` with all derived keys filled in. */
export type ResolvedEvaluation = Filled<EvaluationConfig, "temperature" | "seed" | "min_delta">;

type PathSections = "run" | "output" | "checkpoint" | "observe";

/** A configuration in which every output path is set. */
export interface PathedConfig extends Omit<RunConfig, PathSections> {
  run: Filled<RunConfig["run"], "name" | "directory">;
  output: Filled<RunConfig["output"], "path">;
  checkpoint?: Filled<NonNullable<RunConfig["checkpoint"]>, "directory" | "every_updates">;
  observe?: Filled<NonNullable<RunConfig["observe"]>, "directory">;
}

/** A configuration in which every key has its value. A part that is still absent is off. */
export interface ResolvedConfig
  extends Omit<PathedConfig, "lora" | "training" | "agent" | "evaluation" | "preference" | "observe"> {
  lora: Filled<RunConfig["lora"], "seed">;
  training: ResolvedTraining;
  agent?: ResolvedAgent;
  evaluation?: ResolvedEvaluation;
  preference?: Filled<NonNullable<RunConfig["preference"]>, "beta">;
  observe?: Filled<NonNullable<RunConfig["observe"]>, "directory" | "every">;
}

/** The smallest allowed micro-batch in tokens. */
export function leastMicroBatchTokens(algorithm: AlgorithmName, ctx: number): number {
  return algorithmKeys(algorithm).micro_batch.sequences * ctx;
}

/** Sets the run's name and every output path: in `run.directory`, unless a key says otherwise. */
export function resolvePaths(config: RunConfig, path: string): PathedConfig {
  const name = config.run.name ?? basename(path, extname(path));
  const directory = config.run.directory ?? join(dirname(path), "runs", name);
  const { checkpoint, observe, ...rest } = config;
  return {
    ...rest,
    run: { ...config.run, name, directory },
    output: { ...config.output, path: config.output.path ?? join(directory, "adapter.gguf") },
    ...(checkpoint && {
      checkpoint: {
        ...checkpoint,
        directory: checkpoint.directory ?? join(directory, "checkpoints"),
        every_updates: checkpoint.every_updates ?? DEFAULT_CHECKPOINT_EVERY,
      },
    }),
    ...(observe && {
      observe: { ...observe, directory: observe.directory ?? join(directory, "trajectories") },
    }),
  };
}

/** The default of `observe.every`: ceil(updates / observe_target_updates). */
export function observeEvery(updates: number, target_updates = OBSERVE_TARGET_UPDATES): number {
  return Math.max(1, Math.ceil(updates / target_updates));
}

/**
 * Fills in every derived key by the rule that `describeConfig` states for it.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseRunConfig } from "./load.ts";
 *
 * const text = `
 *   run.algorithm = "sft"
 *   model.path = "model.gguf"
 *   sft.data = "train.jsonl"`;
 * const { config } = parseRunConfig(text, { path: "run.toml" });
 * assert.equal(config.training.ctx, undefined);
 * // Without the key the context is the model's, up to 4096 tokens.
 * const { training } = resolveConfig(config, { path: "run.toml", context_length: 1024, vocabulary: 32_000 });
 * assert.equal(training.ctx, 1024);
 * ```
 */
export function resolveConfig(config: RunConfig, facts: ConfigFacts): ResolvedConfig {
  const training = resolveTraining(config, facts);
  const own = withOwnSection(config);
  const { lora, agent, evaluation, preference, observe, ...rest } = resolvePaths(own, facts.path);
  return {
    ...rest,
    lora: { ...lora, ...facts.init_adapter, seed: lora.seed ?? config.run.seed },
    training,
    ...(agent && { agent: resolveAgent(agent, training.ctx) }),
    ...(evaluation && { evaluation: resolveEvaluation(evaluation, config.run.seed) }),
    ...(preference && {
      preference: { ...preference, beta: preference.beta ?? PREFERENCE_LOSSES[preference.loss].beta },
    }),
    ...(observe && {
      observe: {
        ...observe,
        every: observe.every ?? observeEvery(updatesLimit(config) ?? 1, facts.observe_target_updates),
      },
    }),
  };
}

/** A configuration without the sections of other algorithms: nothing of a run depends on them. */
function withOwnSection(config: RunConfig): RunConfig {
  const rest = { ...config }, own = algorithmKeys(config.run.algorithm).section;
  for (const { section } of ALGORITHMS.map(algorithmKeys)) if (section !== own) delete rest[section];
  return rest;
}

/** `training.ctx` where it is not set, from the model's trained context. */
export function defaultCtx(context_length: number): number {
  return Math.min(DEFAULT_CTX_CAP, context_length);
}

function resolveTraining(config: RunConfig, facts: ConfigFacts): ResolvedTraining {
  const { training, run: { algorithm } } = config;
  const ctx = training.ctx ?? defaultCtx(facts.context_length);
  const { logits, min_rows, max_rows } = LOSS_CHUNK, rows = Math.floor(logits / facts.vocabulary);
  return {
    ...training,
    ...(training.epochs === undefined && !hasOtherEnd(training) && { epochs: DEFAULT_EPOCHS }),
    ctx,
    lr: training.lr ?? algorithmKeys(algorithm).learning_rate,
    ...(!isUnused(algorithm, "training.batch_tokens") && {
      batch_tokens: training.batch_tokens ?? BATCH_SEQUENCES * ctx,
    }),
    micro_batch_tokens: training.micro_batch_tokens ??
      Math.max(leastMicroBatchTokens(algorithm, ctx), MIN_MICRO_BATCH_TOKENS),
    loss_chunk_rows: training.loss_chunk_rows ?? Math.min(max_rows, Math.max(min_rows, rows)),
    gradient_checkpointing: training.gradient_checkpointing ?? false,
  };
}

/** Whether something other than `epochs` ends a run that learns from rows. */
function hasOtherEnd({ updates, max_minutes }: TrainingConfig): boolean {
  return updates !== undefined || max_minutes !== undefined;
}

function resolveAgent(agent: AgentConfig, ctx: number): ResolvedAgent {
  const clip = DEFAULT_CLIPS[agent.importance_sampling_level];
  return {
    ...agent,
    max_trajectory_tokens: agent.max_trajectory_tokens ?? ctx,
    clip_low: agent.clip_low ?? clip.low,
    clip_high: agent.clip_high ?? clip.high,
    concurrent_rollouts: agent.concurrent_rollouts ??
      Math.min(MAX_DEFAULT_CONCURRENT_ROLLOUTS, agent.scenarios_per_update * agent.group_size),
    overlong_penalty: agent.overlong_penalty ?? 0,
  };
}

function resolveEvaluation(evaluation: EvaluationConfig, seed: number): ResolvedEvaluation {
  return {
    ...evaluation,
    temperature: evaluation.temperature ?? (evaluation.samples_per_scenario === 1 ? 0 : 1),
    seed: evaluation.seed ?? seed,
    min_delta: evaluation.min_delta ?? 0,
  };
}
