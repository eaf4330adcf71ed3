/**
 * Prints estimates of decoding, prefill and training on GPUs that are not here: grids and operands are those of the
 * program's own dispatches, instruction counts those of `deno task static`. docs/bench/README.md says how to read them.
 *
 *   deno task estimate [--model 0.5b|1.5b|8b] [--gpu <text>] [--parts] [--out <file>] [--against <file>]
 */

import { parseArgs } from "node:util";
import { SUBGROUP_MATRIX } from "../kernels/device.ts";
import { kernelText } from "../kernels/kernel.ts";
import { type Ceilings, readCeilings, storedStatistics } from "./static_gpu/ceilings.ts";
import { estimateStep, GPU_MODELS, type StepEstimate } from "./static_gpu/cost_model.ts";
import { formNames } from "./static_gpu/forms.ts";
import { countedModel, type Launch, samplingLaunches, trainingLaunches } from "./static_gpu/launches.ts";
import type { HeaderName } from "./make_header.ts";

const MODELS = ["0.5b", "1.5b", "8b"] as const satisfies readonly HeaderName[];
const DECODE_ROWS = [1, 8, 32, 64, 128, 256], TRAINING_TOKENS = [4096, 8192];
/** Tokens in the cache of a decoding sequence; of a prompt; of a training sequence. */
const DECODE_KEYS = 512, DECODE_PROMPT = DECODE_KEYS - 2, PROMPT = 512, TRAINING_SEQUENCE = 1024;
/** Groups of sequences that have a prompt in common, and the tokens that a member has generated. */
const GROUPS = { sequences: 64, members: 8, prompt: 1024 }, GENERATED = 128;
/** Rows of a prefill step, of sequences that are short here because grids do not depend on their length. */
const PREFILL = { sequences: 128, prompt: 4 };
/** The GPU whose instructions are counted. Others have others, in about the same proportion. */
const COUNTED_FAMILY = "gfx1100";

/** A step that is estimated. */
interface Step {
  name: string;
  /** Tokens of the step. */
  tokens: number;
  /** Keys that a row sees on average; of these the ones that it shares. */
  keys: number;
  shared?: number;
  launches: Launch[];
}

/** An estimate for one GPU. */
export interface EstimateLine {
  model: string;
  gpu: string;
  step: string;
  tokens_per_second: number;
  estimate: StepEstimate;
}

async function stepsOf(name: HeaderName, features: readonly string[]): Promise<Step[]> {
  const counted = await countedModel(name, "f16", features), steps: Step[] = [];
  for (const rows of DECODE_ROWS) {
    const { decode: launches } = await samplingLaunches(counted, {
      sequences: rows,
      prompt: DECODE_PROMPT,
    });
    steps.push({ name: `decode, ${rows} rows`, tokens: rows, keys: DECODE_KEYS, launches });
  }
  const { sequences, members, prompt } = GROUPS, keys = prompt + GENERATED;
  for (const shares of [false, true]) {
    const given = { sequences, prompt, members: shares ? members : 1 };
    const { decode: launches } = await samplingLaunches(counted, given);
    const name = shares ? `${sequences / members} groups of ${members}` : `${sequences} rows`;
    const step = { name: `decode, ${name}, ${keys}`, tokens: sequences, keys, launches };
    steps.push(shares ? { ...step, shared: prompt } : step);
  }
  const { prefill } = await samplingLaunches(counted, PREFILL), tokens = PREFILL.sequences * PREFILL.prompt;
  steps.push({ name: `prefill, ${tokens} rows`, tokens, keys: PROMPT / 2, launches: prefill });
  for (const tokens of TRAINING_TOKENS) {
    const launches = await trainingLaunches(counted, tokens);
    steps.push({ name: `training, ${tokens} tokens`, tokens, keys: TRAINING_SEQUENCE / 2, launches });
  }
  return steps;
}

/** What is estimated. */
export interface EstimateOptions {
  models: readonly HeaderName[];
  /** A text that the names of the GPUs contain. */
  gpu: string;
  /** Whether subgroups multiply matrices, as with Dawn; GPUs that do not are left out then. */
  matrices: boolean;
  ceilings: Ceilings;
}

/** All estimates of the steps of these models. */
export async function estimateAll(
  { models, gpu, matrices, ceilings }: EstimateOptions,
): Promise<EstimateLine[]> {
  const names = formNames(), lines: EstimateLine[] = [];
  const factsOf = ({ keys: all, shared = 0 }: Pick<Step, "keys" | "shared">) => (launch: Launch) => {
    const form = names.get(kernelText(launch.kernel));
    const keys = launch.kernel.name.startsWith("attention_paged_shared") ? shared : all - shared;
    return { statistics: form ? storedStatistics(ceilings, form, COUNTED_FAMILY) : null, keys };
  };
  for (const model of models) {
    const steps = await stepsOf(model, matrices ? [SUBGROUP_MATRIX] : []);
    for (const each of GPU_MODELS.filter(({ name }) => name.includes(gpu))) {
      if (matrices && each.matrix_lanes === null) continue;
      for (const { name, tokens, launches, ...keys } of steps) {
        const estimate = estimateStep(each, launches, factsOf(keys));
        const tokens_per_second = tokens / estimate.seconds;
        const step = matrices ? `${name}, matrices` : name;
        lines.push({ model, gpu: each.name, step, tokens_per_second, estimate });
      }
    }
  }
  return lines;
}

/** `0.5b H100  decode, 64 rows  estimate  1,660 tokens/s  38.5 ms  512 dispatches` */
export function estimateText({ model, gpu, step, tokens_per_second, estimate }: EstimateLine): string {
  const { seconds, dispatches } = estimate;
  return `${model.padEnd(5)}${gpu.padEnd(12)}${step.padEnd(41)}` +
    `estimate ${shortNumber(tokens_per_second).padStart(9)} tokens/s ` +
    `${milliseconds(seconds).padStart(9)} ms ${String(dispatches).padStart(6)} dispatches`;
}

const shortNumber = (value: number) => Number(value.toPrecision(3)).toLocaleString("en");
const milliseconds = (seconds: number) => shortNumber(1000 * seconds);

/** A line of the file: an estimate without its parts. */
interface StoredEstimate {
  model: string;
  gpu: string;
  step: string;
  tokens_per_second: number;
}

/** How many times as many tokens each estimate has as the stored one of the same step; null for one that is not stored. */
export function ratiosTo(lines: readonly EstimateLine[], stored: string): (number | null)[] {
  const keyOf = ({ model, gpu, step }: StoredEstimate) => `${model}|${gpu}|${step}`;
  const before = new Map<string, number>();
  for (const text of stored.split("\n")) {
    if (text === "") continue;
    const line: StoredEstimate = JSON.parse(text);
    before.set(keyOf(line), line.tokens_per_second);
  }
  return lines.map((line) => {
    const old = before.get(keyOf(line));
    return old === undefined ? null : line.tokens_per_second / old;
  });
}

/** The lines of a file for {@link ratiosTo}. */
export function storedText(lines: readonly EstimateLine[]): string {
  return lines.map(({ model, gpu, step, tokens_per_second: rate }) => {
    const stored: StoredEstimate = { model, gpu, step, tokens_per_second: Number(rate.toPrecision(4)) };
    return JSON.stringify(stored) + "\n";
  }).join("");
}

if (import.meta.main) {
  const { values: { model, gpu, parts, out, against } } = parseArgs({
    args: Deno.args,
    options: {
      model: { type: "string" },
      gpu: { type: "string", default: "" },
      parts: { type: "boolean", default: false },
      out: { type: "string" },
      against: { type: "string" },
    },
  });
  const models = MODELS.filter((name) => model === undefined || name === model);
  if (models.length === 0) {
    console.error(`Cannot estimate model ${model}: there are ${MODELS.join(", ")}`);
    Deno.exit(2);
  }
  const ceilings = await readCeilings();
  const lines = [
    ...await estimateAll({ models, gpu, matrices: false, ceilings }),
    ...await estimateAll({ models, gpu, matrices: true, ceilings }),
  ];
  const ratios = against === undefined ? [] : ratiosTo(lines, await Deno.readTextFile(against));
  lines.forEach((line, i) => {
    const ratio = ratios[i] ?? null;
    console.log(estimateText(line) + (ratio === null ? "" : `  ${ratio.toFixed(2)} times`));
    if (!parts) return;
    const shown = line.estimate.parts.map(([kind, seconds]) => `${kind} ${milliseconds(seconds)}`);
    console.log(`     ${shown.join(", ")} ms`);
  });
  if (out !== undefined) await Deno.writeTextFile(out, storedText(lines));
}
