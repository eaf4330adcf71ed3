/** `svc plan`: the device memory of a run, before anything is loaded. */

import { type Command, InvalidArgumentError } from "commander";
import { loadRunConfig } from "../config/check/load.ts";
import { parseBudget } from "../config/server/schema.ts";
import { formatBytes, jsonText } from "../core/text.ts";
import { assumedGpu } from "../kernels/assumed_gpu.ts";
import { openCheckedGpu } from "../kernels/canary/open_checked.ts";
import type { Gpu } from "../kernels/device.ts";
import { type Plan, planRun, type PlanTarget } from "../runs/plan/plan.ts";
import type { CliContext } from "./context.ts";
import { overridesArgument } from "./options.ts";
import { printRows, type Row, styled, type Terminal } from "./terminal.ts";

interface PlanOptions {
  json?: true;
  vram?: number;
}

function memorySize(text: string): number {
  const budget = parseBudget(/^\d+$/.test(text) ? Number(text) : text);
  if (budget !== null && budget !== "all" && "bytes" in budget) return budget.bytes;
  throw new InvalidArgumentError('It must be a size such as "12GiB".');
}

/** This machine's GPU. With a given memory size any GPU will do; without a GPU, typical limits are assumed. */
async function planTarget(
  device: Parameters<typeof openCheckedGpu>[0],
  vram_bytes: number | null,
): Promise<PlanTarget> {
  const ram_bytes = Deno.systemMemoryInfo().total;
  let gpu: Gpu | null = null;
  try {
    gpu = await openCheckedGpu(device);
  } catch (error) {
    if (vram_bytes === null) throw error;
  }
  gpu?.device.destroy();
  const is_assumed = vram_bytes !== null && device.device !== "software" &&
    (gpu === null || gpu.facts.software);
  const card = is_assumed || gpu === null ? assumedGpu() : gpu;
  return { card, vram_bytes: vram_bytes ?? card.facts.vram_bytes, ram_bytes };
}

function printPlan(terminal: Terminal, plan: Plan, { card: { facts } }: PlanTarget): void {
  const { config, memory, schedule } = plan, budget = memory.vram_budget_bytes;
  const size = budget === null ? "whose memory's size is not known" : `with ${formatBytes(budget)}`;
  const percent = budget === null
    ? ""
    : `, ${(100 * memory.peak_bytes / budget).toFixed(0)} % of the device's`;
  const rows: Row[] = [
    ["run", `${config.run.name}, ${config.run.algorithm}`],
    ["model", config.model.path],
    ["device", `${facts.name} ${size}`],
    ["updates", `${updatesText(plan)} of about ${schedule.tokens_per_update} tokens`],
    ["memory", `${formatBytes(memory.peak_bytes)} at most${percent}`],
    ...memory.posts.map(({ post, bytes }): Row => [`  ${post}`, formatBytes(bytes)]),
    ...plan.warnings.map(({ code, field, message }): Row => [
      "warning",
      `${code}${field === undefined ? "" : ` (${field})`}: ${message}`,
    ]),
  ];
  printRows(terminal, rows);
}

function updatesText({ config: { training }, schedule: { updates } }: Plan): string {
  const minutes = training.max_minutes === undefined ? null : `in ${training.max_minutes} minutes`;
  if (updates === null) return `as many as fit ${minutes}`;
  return minutes === null ? String(updates) : `at most ${updates} ${minutes}`;
}

/** The result of a plan without a refusal, in words. */
function verdict({ memory }: Plan): string {
  return memory.vram_budget_bytes === null
    ? "the device can bind all tensors; whether its memory is large enough is not known"
    : "the run fits on the device";
}

/** Adds the command. */
export function addPlanCommand(program: Command, { terminal }: CliContext): void {
  program.command("plan").description(
    "print the device memory and length of a run, from the model's header only",
  )
    .argument("<config>", "run configuration (TOML)").addArgument(overridesArgument())
    .option("--vram <size>", "plan for a GPU with this much memory, such as 12GiB", memorySize)
    .option("--json", "print the plan as JSON")
    .action(async (path: string, overrides: string[], { json, vram }: PlanOptions) => {
      const loaded = await loadRunConfig(path, { overrides });
      const { device, webgpu } = loaded.config.model;
      const target = await planTarget({ device, webgpu }, vram ?? null);
      const { plan, refusal } = await planRun(loaded, target);
      if (json) terminal.line(jsonText(plan, 2));
      else printPlan(terminal, plan, target);
      if (refusal) throw refusal;
      if (!json) terminal.line(styled(terminal, "green", verdict(plan)));
    });
}
