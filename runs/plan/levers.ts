/** Changes of the configuration that reduce a run's memory, in the order in which they are tried. */

import { leastMicroBatchTokens, type ResolvedConfig } from "../../config/check/derive.ts";
import { NOT_BUILT } from "../../config/check/not_built.ts";
import type { MemoryPlan } from "../../trainer/engine/plan_memory.ts";

/** The memory that a run may count on. */
export interface MemoryBudget {
  /** On the device; null when its size is unknown: nothing is compared with it then. */
  vram_bytes: number | null;
  /** In the machine. */
  ram_bytes: number;
}

/** Computes the memory plan of a configuration on a device. */
export type MeasureMemory = (config: ResolvedConfig) => MemoryPlan;

/** A value that a lever sets. */
interface Setting {
  key: string;
  value: unknown;
}

/** A way to save memory without changing the result. */
interface Lever {
  name: string;
  key: string;
  /** The key's next smaller value; null when there is none. */
  next(config: ResolvedConfig, plan: MemoryPlan): unknown;
  /** An upper estimate of the factor by which an update takes longer when the value changes. */
  timeFactor(from: unknown, to: unknown): number;
}

/** An applied lever. */
export interface AppliedLever {
  lever: string;
  saved_bytes: number;
  time_factor: number;
  setting: Setting;
}

/** The fewest loss rows: with fewer, products no longer fill a device, and views of chunks cannot be bound. */
const LEAST_CHUNK_ROWS = 64;

/**
 * The backward pass has no gradients of frozen weights, so it costs about as much as the forward pass: 3 instead of 2.
 */
const RECOMPUTED_FORWARD = 1.5;

/** Moments cross the bus twice in a step; a step's products take much longer. */
const MOVED_MOMENTS = 1.1;

const halved = (value: number, least: number) =>
  value > least ? Math.max(least, Math.floor(value / 2)) : null;

const NO_TIME = () => 1;

/** The levers that keep the result, in the contract's order. */
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

/** Their names. */
export const LEVER_NAMES = LEVERS.map(({ name }) => name);

const missingPart = (key: string) =>
  NOT_BUILT.find((entry) => entry.key === key && entry.value === true)?.part;

/** Levers that are not built, with the missing part. */
export const MISSING_LEVERS: readonly { lever: string; part: string }[] = LEVERS.flatMap(({ name, key }) => {
  const part = missingPart(key);
  return part === undefined ? [] : [{ lever: name, part }];
});

/** A configuration after levers, and its plan. */
export interface LeverResult {
  config: ResolvedConfig;
  plan: MemoryPlan;
  /** In the order in which they were applied, without levers that saved nothing. */
  levers: AppliedLever[];
}

const sumOf = (bytes: MemoryPlan["bytes"]) => Object.values(bytes).reduce((sum, size) => sum + size, 0);

/** The total bytes of a plan on the device. */
export function peakBytes({ bytes }: Pick<MemoryPlan, "bytes">): number {
  return sumOf(bytes);
}

/** The total bytes of a plan in the machine's memory: copies and, with a software adapter, the device's bytes. */
export function hostPeakBytes({ host }: Pick<MemoryPlan, "host">): number {
  return sumOf(host);
}

/** A memory that a plan exceeds. */
export interface ExceededMemory {
  of: "device" | "machine";
  bytes: MemoryPlan["bytes"];
  peak_bytes: number;
  budget_bytes: number;
}

/** The memories that a plan exceeds, the one that lacks most first. */
export function exceededMemories(
  { bytes, host }: Pick<MemoryPlan, "bytes" | "host">,
  { vram_bytes, ram_bytes }: MemoryBudget,
): ExceededMemory[] {
  return [
    { of: "device" as const, bytes, peak_bytes: sumOf(bytes), budget_bytes: vram_bytes ?? Infinity },
    { of: "machine" as const, bytes: host, peak_bytes: sumOf(host), budget_bytes: ram_bytes },
  ].filter(({ peak_bytes, budget_bytes }) => peak_bytes > budget_bytes)
    .sort((a, b) => (b.peak_bytes - b.budget_bytes) - (a.peak_bytes - a.budget_bytes));
}

/** Whether a plan fits a budget, and every tensor fits the device's binding limit. */
export function fitsBudget(plan: MemoryPlan, budget: MemoryBudget): boolean {
  return plan.unbindable.length === 0 && exceededMemories(plan, budget).length === 0;
}

interface Fitting {
  budget: MemoryBudget;
  measure: MeasureMemory;
}

/** Applies the built levers one after the other, each as far as needed. */
export function applyLevers(config: ResolvedConfig, { budget, measure }: Fitting): LeverResult {
  let reached: LeverResult = { config, plan: measure(config), levers: [] };
  for (const lever of LEVERS) {
    if (missingPart(lever.key) === undefined) reached = pull(lever, reached, { budget, measure });
  }
  return reached;
}

function pull(lever: Lever, from: LeverResult, { budget, measure }: Fitting): LeverResult {
  let { config, plan } = from, value: unknown = null;
  while (!fitsBudget(plan, budget)) {
    const next = lever.next(config, plan);
    if (next === null) break;
    value = next;
    config = withValue(config, lever.key, next);
    plan = measure(config);
  }
  const saved_bytes = peakBytes(from.plan) - peakBytes(plan);
  const lack = (plan: MemoryPlan) =>
    exceededMemories(plan, budget).reduce((sum, short) => sum + short.peak_bytes - short.budget_bytes, 0);
  // A lever saves memory of the device: where the machine's is short, that may not be what is needed.
  const helps = from.plan.unbindable.length > 0 || lack(plan) < lack(from.plan);
  if (saved_bytes <= 0 || !helps) return from;
  const time_factor = lever.timeFactor(valueOf(from.config, lever.key), value);
  const applied = { lever: lever.name, saved_bytes, time_factor, setting: { key: lever.key, value } };
  return { config, plan, levers: [...from.levers, applied] };
}

/** The shortest context to propose. */
const LEAST_CONTEXT = 256;

/**
 * The configuration with the longest of ctx/2, ctx/4, … that fits (`truncate_context`); it cuts longer sequences. Null
 * when none fits.
 */
export function fittingContext(config: ResolvedConfig, { budget, measure }: Fitting): ResolvedConfig | null {
  for (let ctx = Math.floor(config.training.ctx / 2); ctx >= LEAST_CONTEXT; ctx = Math.floor(ctx / 2)) {
    const shorter = withContext(config, ctx);
    if (fitsBudget(measure(shorter), budget)) return shorter;
  }
  return null;
}

/** The configuration with a shorter context, and with the other limits reduced accordingly. */
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
