/** What makes a run take less of the device's memory, in the order in which it is tried. */

import { leastMicroBatchTokens, type ResolvedConfig } from "../../config/derive.ts";
import { NOT_BUILT } from "../../config/not_built.ts";
import type { MemoryPlan } from "../../trainer/engine/plan_memory.ts";

/** The plan of a configuration on a device. */
export type MeasureMemory = (config: ResolvedConfig) => MemoryPlan;

/** A value that a lever sets. */
interface Setting {
  key: string;
  value: unknown;
}

/** One way to save memory without another result. */
interface Lever {
  name: string;
  key: string;
  /** The next smaller value of the key; null: there is none. */
  next(config: ResolvedConfig, plan: MemoryPlan): unknown;
  /** By how much an update takes longer, at most, when the value goes from one to another: an estimate. */
  timeFactor(from: unknown, to: unknown): number;
}

/** What a lever did. */
export interface AppliedLever {
  lever: string;
  saved_bytes: number;
  time_factor: number;
  setting: Setting;
}

/** Rows of the loss below which its products no longer fill a device, and views of chunks cannot be bound. */
const LEAST_CHUNK_ROWS = 64;

/** Backward passes form no gradient of a frozen weight, so they cost about as much as forward ones: 3 in place of 2. */
const RECOMPUTED_FORWARD = 1.5;

/** Moments go over the bus and back once a step; a step's products take far longer. */
const MOVED_MOMENTS = 1.1;

const halved = (value: number, least: number) =>
  value > least ? Math.max(least, Math.floor(value / 2)) : null;

const NO_TIME = () => 1;

/** Those that leave the result as it is, in the contract's order. */
const LEVERS: readonly Lever[] = [
  {
    name: "micro_batch",
    key: "training.micro_batch_tokens",
    next: ({ run, training: { micro_batch_tokens, ctx } }) =>
      halved(micro_batch_tokens, leastMicroBatchTokens(run.algorithm, ctx)),
    timeFactor: NO_TIME,
  },
  {
    name: "gradient_checkpointing",
    key: "training.gradient_checkpointing",
    next: ({ training }) => training.gradient_checkpointing ? null : true,
    timeFactor: () => RECOMPUTED_FORWARD,
  },
  {
    name: "chunked_cross_entropy",
    key: "training.loss_chunk_rows",
    next: ({ training }) => halved(training.loss_chunk_rows, LEAST_CHUNK_ROWS),
    timeFactor: NO_TIME,
  },
  {
    name: "kv_f16",
    key: "model.kv",
    next: (_, { kv }) => kv === "f16" ? null : "f16",
    timeFactor: NO_TIME,
  },
  {
    name: "fewer_concurrent_rollouts",
    key: "agent.concurrent_rollouts",
    next: ({ agent }) => agent ? halved(agent.concurrent_rollouts, 1) : null,
    timeFactor: (from, to) => Number(from) / Number(to),
  },
  {
    name: "offload_optimizer",
    key: "training.offload_optimizer",
    next: ({ training }) => training.offload_optimizer ? null : true,
    timeFactor: () => MOVED_MOMENTS,
  },
];

const missingPart = (key: string) =>
  NOT_BUILT.find((entry) => entry.key === key && entry.value === true)?.part;

/** Levers whose part this build lacks, with the part. */
export const MISSING_LEVERS: readonly { lever: string; part: string }[] = LEVERS.flatMap(({ name, key }) => {
  const part = missingPart(key);
  return part === undefined ? [] : [{ lever: name, part }];
});

export interface Levered {
  config: ResolvedConfig;
  plan: MemoryPlan;
  /** In the order in which they were applied; none that saved nothing. */
  levers: AppliedLever[];
}

/** All bytes of a plan. */
export function peakBytes({ bytes }: Pick<MemoryPlan, "bytes">): number {
  return Object.values(bytes).reduce((sum, size) => sum + size, 0);
}

/** Whether a plan keeps within a budget, and every tensor within what the device binds. */
export function fitsBudget(plan: MemoryPlan, budget_bytes: number): boolean {
  return plan.unbindable.length === 0 && peakBytes(plan) <= budget_bytes;
}

/** Applies the levers that this build has, one after the other and each as far as it is needed. */
export function applyLevers(
  config: ResolvedConfig,
  { budget_bytes, measure }: { budget_bytes: number; measure: MeasureMemory },
): Levered {
  let reached: Levered = { config, plan: measure(config), levers: [] };
  for (const lever of LEVERS) {
    if (missingPart(lever.key) === undefined) reached = pull(lever, reached, { budget_bytes, measure });
  }
  return reached;
}

function pull(
  lever: Lever,
  from: Levered,
  { budget_bytes, measure }: { budget_bytes: number; measure: MeasureMemory },
): Levered {
  let { config, plan } = from, value: unknown = null;
  while (!fitsBudget(plan, budget_bytes)) {
    const next = lever.next(config, plan);
    if (next === null) break;
    value = next;
    config = withValue(config, lever.key, next);
    plan = measure(config);
  }
  const saved_bytes = peakBytes(from.plan) - peakBytes(plan);
  if (saved_bytes <= 0) return from;
  const time_factor = lever.timeFactor(valueOf(from.config, lever.key), value);
  const applied = { lever: lever.name, saved_bytes, time_factor, setting: { key: lever.key, value } };
  return { config, plan, levers: [...from.levers, applied] };
}

/** What a configuration with a shorter context has to say. */
export type ShorterContext = Pick<ResolvedConfig["training"], "ctx" | "micro_batch_tokens">;

/** Shorter contexts than this are not proposed. */
const LEAST_CONTEXT = 256;

/**
 * The longest of the context's halves with which a configuration fits, which cuts what is longer
 * (`truncate_context`); null where none does.
 */
export function fittingContext(
  config: ResolvedConfig,
  { budget_bytes, measure }: { budget_bytes: number; measure: MeasureMemory },
): ShorterContext | null {
  for (let ctx = Math.floor(config.training.ctx / 2); ctx >= LEAST_CONTEXT; ctx = Math.floor(ctx / 2)) {
    const shorter = withContext(config, ctx), { micro_batch_tokens } = shorter.training;
    if (fitsBudget(measure(shorter), budget_bytes)) return { ctx, micro_batch_tokens };
  }
  return null;
}

/** A configuration with a shorter context, and with what cannot be longer or need not be larger than it. */
function withContext(config: ResolvedConfig, ctx: number): ResolvedConfig {
  const { run, training, agent } = config;
  const least = (tokens: number) => leastMicroBatchTokens(run.algorithm, tokens);
  return {
    ...config,
    training: {
      ...training,
      ctx,
      micro_batch_tokens: training.micro_batch_tokens === least(training.ctx)
        ? least(ctx)
        : training.micro_batch_tokens,
    },
    ...(agent && {
      agent: { ...agent, max_trajectory_tokens: Math.min(agent.max_trajectory_tokens, ctx) },
    }),
  };
}

type Section = "training" | "model" | "agent";

function valueOf(config: ResolvedConfig, key: string): unknown {
  const [section, name] = key.split(".") as [Section, string];
  return (config[section] as unknown as Record<string, unknown>)[name];
}

function withValue(config: ResolvedConfig, key: string, value: unknown): ResolvedConfig {
  const [section, name] = key.split(".") as [Section, string];
  return { ...config, [section]: { ...config[section], [name]: value } };
}
