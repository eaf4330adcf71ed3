/** The plan of a run: its resolved configuration, its memory and its length. Creates nothing. */

import type { ResolvedConfig } from "../../config/check/derive.ts";
import type { LoadedConfig } from "../../config/check/load.ts";
import { type ValueSource, valueSources } from "../../config/check/sources.ts";
import type { GpuCard } from "../../core/device.ts";
import { ServiceError } from "../../core/errors.ts";
import { formatBytes } from "../../core/text.ts";
import { type GgufFile, openGgufHeader } from "../../trainer/formats/gguf.ts";
import { unbindableProblem } from "../../trainer/engine/memory_advice.ts";
import { HOST_COMPONENTS, type MemoryPlan, planMemory } from "../../trainer/engine/plan_memory.ts";
import type { TemplateProbe } from "../../trainer/tokenizer/template_probe.ts";
import type { AlgorithmDefinition, RunSchedule } from "../algorithms/definition.ts";
import { type PlanWarning, type RunWarning, WARNING_CODES } from "../record/warning.ts";
import { loadRequest, softwareWarning } from "../session/session.ts";
import {
  applyLevers,
  exceededMemories,
  type ExceededMemory,
  fitsBudget,
  fittingContext,
  hostPeakBytes,
  type LeverResult,
  type MeasureMemory,
  type MemoryBudget,
  MISSING_LEVERS,
  peakBytes,
} from "./levers.ts";
import { type ReadRun, readRun } from "./prepare.ts";
import { configWarnings } from "./warnings.ts";

/** A component of memory. */
export interface MemoryPost {
  post: string;
  bytes: number;
}

/** The length of a run; its times are null unless they were measured. */
export interface PlanSchedule extends RunSchedule {
  seconds_per_update: number | null;
  eta_seconds: number | null;
  calibrated: boolean;
}

/** The answer of `svc plan --json`. */
export interface Plan {
  config: ResolvedConfig;
  sources: Record<string, ValueSource>;
  memory: {
    /** On the device, and the copies of {@link HOST_COMPONENTS} in the machine's memory; the largest first. */
    posts: MemoryPost[];
    /** Of the posts on the device. */
    peak_bytes: number;
    /** Of the posts in the machine's memory, which with a software adapter are all of them. */
    host_peak_bytes: number;
    /** Null when the size of the device's memory is unknown. */
    vram_budget_bytes: number | null;
    ram_budget_bytes: number;
  };
  /** Empty: a complete configuration is planned as written. */
  levers_applied: string[];
  levers: { lever: string; saved_bytes: number; time_factor: number }[];
  schedule: PlanSchedule;
  template_probe: TemplateProbe;
  warnings: PlanWarning[];
}

/** The device to plan for. */
export interface PlanTarget extends MemoryBudget {
  card: GpuCard;
}

export interface PlannedRun {
  plan: Plan;
  /** Why the device cannot hold the run, `out_of_memory`; null when no reason is known. */
  refusal: ServiceError | null;
}

/**
 * Plans a run as configured. Reads only the header of the model file.
 *
 * @throws {ServiceError} Problems with the configuration, the data or the model.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { loadRunConfig } from "../../config/check/load.ts";
 * import { assumedGpu } from "../../kernels/assumed_gpu.ts";
 *
 * const loaded = await loadRunConfig("examples/tiny_agent_grpo.toml");
 * const target = { card: assumedGpu(), vram_bytes: 12 * 2 ** 30, ram_bytes: 32 * 2 ** 30 };
 * const { plan, refusal } = await planRun(loaded, target);
 * assert.equal(refusal, null);
 * assert.ok(plan.memory.peak_bytes < target.vram_bytes);
 * assert.equal(plan.schedule.updates, 6);
 * ```
 */
export async function planRun(loaded: LoadedConfig, target: PlanTarget): Promise<PlannedRun> {
  const { written: config, definition, parts, data } = await readRun(loaded, openGgufHeader);
  using file = await openGgufHeader(config.model.path);
  const measure = memoryMeasure(file, definition, target.card);
  const plan = planOf(config, {
    parts,
    data,
    target,
    memory: measure(config),
    sources: valueSources(loaded, config),
  });
  return { plan, refusal: memoryRefusal(config, { target, measure }) };
}

interface PlanParts extends Pick<ReadRun, "parts" | "data">, Pick<Plan, "sources"> {
  target: PlanTarget;
  memory: MemoryPlan;
}

/** The plan of a configuration without levers. */
export function planOf(config: ResolvedConfig, { parts, data, target, memory, sources }: PlanParts): Plan {
  return {
    config,
    sources,
    memory: {
      posts: memoryPosts({ bytes: { ...memory.bytes, ...memory.host } }),
      peak_bytes: peakBytes(memory),
      host_peak_bytes: hostPeakBytes(memory),
      vram_budget_bytes: target.vram_bytes,
      ram_budget_bytes: target.ram_bytes,
    },
    levers_applied: [],
    levers: [],
    schedule: { ...data.schedule(config), seconds_per_update: null, eta_seconds: null, calibrated: false },
    template_probe: parts.probe,
    warnings: [
      ...configWarnings(config, parts),
      ...data.warnings.filter(isPlanWarning),
      ...deviceWarnings(config, target),
    ],
  };
}

/** Measures a configuration's memory on a device with the engine's constructors. */
export function memoryMeasure(
  file: GgufFile,
  definition: Pick<AlgorithmDefinition, "sequences" | "training">,
  card: GpuCard,
): MeasureMemory {
  return (config) =>
    planMemory(file, loadRequest(config, definition.sequences(config), definition.training(config)), card);
}

/** The largest first, without those that have no bytes at the moment of the peak. */
export function memoryPosts({ bytes }: Pick<MemoryPlan, "bytes">): MemoryPost[] {
  return Object.entries(bytes).filter(([, bytes]) => bytes > 0)
    .map(([post, bytes]) => ({ post, bytes })).sort((a, b) => b.bytes - a.bytes);
}

function isPlanWarning(warning: RunWarning): warning is PlanWarning {
  return (WARNING_CODES as readonly string[]).includes(warning.code);
}

function deviceWarnings(
  config: ResolvedConfig,
  { card: { facts }, vram_bytes }: PlanTarget,
): PlanWarning[] {
  const warnings: PlanWarning[] = [];
  const software = softwareWarning(config, { device: facts });
  if (software !== null) {
    warnings.push({ code: "software_device", field: "model.device", message: software });
  }
  if (vram_bytes === null) {
    const message = "the driver does not tell the size of the device's memory: nothing is compared with it";
    warnings.push({ code: "vram_unknown", message });
  }
  return warnings;
}

/** Whether a component lies only in the machine's memory. */
export function isHostPost(post: string): boolean {
  return (HOST_COMPONENTS as readonly string[]).includes(post);
}

/** The number of components that a refusal names, the largest first. */
export const NAMED_POSTS = 3;

/** In the `meta` of insufficient memory, whose budgets are integers: the size of the device's memory is not known. */
export const UNKNOWN_BUDGET = 0;

/** The `meta` of insufficient memory for a plan without levers. */
export function memoryMeta(memory: Pick<MemoryPlan, "bytes" | "host">, budget: MemoryBudget) {
  const [short] = exceededMemories(memory, budget), { vram_bytes, ram_bytes } = budget;
  return {
    overflow_bytes: short ? short.peak_bytes - short.budget_bytes : 0,
    vram_budget_bytes: vram_bytes ?? UNKNOWN_BUDGET,
    ram_budget_bytes: ram_bytes,
    dominant_posts: memoryPosts(short ?? memory).slice(0, NAMED_POSTS),
    levers_applied: [],
    unlocks: [],
  };
}

/** "it takes 9 GiB of the device's 8 GiB: weights 5 GiB, kv 4 GiB" */
export function exceededText({ of, bytes, peak_bytes, budget_bytes }: ExceededMemory): string {
  const named = memoryPosts({ bytes }).slice(0, NAMED_POSTS);
  const posts = named.map(({ post, bytes }) => `${post} ${formatBytes(bytes)}`).join(", ");
  return `it takes ${formatBytes(peak_bytes)} of the ${of}'s ${formatBytes(budget_bytes)}: ${posts}`;
}

/**
 * Why a device cannot hold a run, with what would reduce it; null when no reason is known.
 *
 * @returns `out_of_memory`, whose details are the contract's `meta` of `insufficient-memory`.
 */
export function memoryRefusal(
  config: ResolvedConfig,
  { target, measure }: { target: PlanTarget; measure: MeasureMemory },
): ServiceError | null {
  const { vram_bytes, ram_bytes } = target, memory = measure(config), budget = { vram_bytes, ram_bytes };
  if (fitsBudget(memory, budget)) return null;
  const short = exceededMemories(memory, budget), reasons: string[] = [];
  if (short.length > 0) {
    reasons.push(
      short.map(exceededText).join(", and ") +
        leversText(applyLevers(config, { budget, measure }), budget) +
        contextText(fittingContext(config, { budget, measure })),
    );
  }
  const unbindable = unbindableProblem(memory.unbindable);
  if (unbindable !== null) reasons.push(unbindable);
  const message = `Cannot fit the run on the device: ${reasons.join(". Also ")}`;
  return new ServiceError("out_of_memory", message, memoryMeta(memory, budget));
}

function leversText({ levers, plan }: LeverResult, budget: MemoryBudget): string {
  const settings = levers.map(({ setting: { key, value }, saved_bytes, time_factor }) => {
    const price = time_factor > 1 ? ` and takes up to ${time_factor} times as long` : "";
    return `${key} = ${JSON.stringify(value)} saves ${formatBytes(saved_bytes)}${price}`;
  });
  const peak = formatBytes(peakBytes(plan));
  const sum = fitsBudget(plan, budget) ? `with that it takes ${peak}` : `that leaves ${peak}`;
  const missing = MISSING_LEVERS.map(({ part }) => part).join(" and ");
  return (settings.length > 0 ? `. ${settings.join(", ")}: ${sum}` : "") +
    (missing === "" ? "" : `. Not in this build: ${missing}`);
}

function contextText(shorter: ResolvedConfig | null): string {
  if (shorter === null) return "";
  const { ctx, micro_batch_tokens } = shorter.training;
  return `. With training.ctx = ${ctx}, which cuts what is longer, and training.micro_batch_tokens = ` +
    `${micro_batch_tokens} it fits`;
}
