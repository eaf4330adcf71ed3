/**
 * Measures this device on a model's shapes, prints a line for each measurement and stores JSON lines.
 * docs/bench/README.md says how to read them. Nothing asserts a time.
 *
 *   deno task bench [--model <gguf>] [--quick] [--out <folder or .jsonl file>] [--only matmul,decode,...]
 *     [--webgpu deno|dawn]
 */

import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { prepareGpuEnvironment } from "../cli/environment.ts";
import { ServiceError } from "../core/errors.ts";
import { WEBGPU_PROVIDERS, type WebGpuProviderName } from "../core/webgpu_providers.ts";
import { fixturePath } from "../tests/fixture.ts";
import { openGguf } from "../trainer/formats/gguf.ts";
import { readModelShape } from "../trainer/model/architectures/registry.ts";
import type { ModelShape } from "../trainer/model/model_shape.ts";
import { benchAttention } from "./bench/attention.ts";
import { type BenchContext, openBenchGpu, withKernels, withSizes } from "./bench/context.ts";
import { withEngine } from "./bench/engine.ts";
import { benchLora } from "./bench/lora.ts";
import { benchMatmul } from "./bench/matmul.ts";
import { benchMask } from "./bench/mask.ts";
import { measurePeaks } from "./bench/peaks.ts";
import { benchProfile } from "./bench/profile.ts";
import { currentCommit, driverVersion, Report, storeLines } from "./bench/report.ts";
import { benchDecode, benchPrefill } from "./bench/sampling.ts";
import { benchBytes, benchTrain } from "./bench/train.ts";

/** Parts of the bench, in order. The peaks are always measured, because other rates are divided by them. */
export const PARTS = [
  "peak",
  "matmul",
  "lora",
  "attention",
  "profile",
  "prefill",
  "decode",
  "train",
  "bytes",
  "mask",
] as const;
export type Part = typeof PARTS[number];

const KERNEL_PARTS = [["matmul", benchMatmul], ["lora", benchLora], ["attention", benchAttention]] as const;
const ENGINE_PARTS = { prefill: benchPrefill, decode: benchDecode, train: benchTrain, bytes: benchBytes };

export interface BenchOptions {
  /** A GGUF file. */
  model: string;
  quick: boolean;
  /** A folder, or a file whose name ends in `.jsonl`. */
  out: string;
  only: readonly Part[];
  webgpu: WebGpuProviderName;
  print(text: string): void;
}

/**
 * Runs the selected parts and stores each part's measurements as soon as it ends. @returns The file's path.
 *
 * @throws {ServiceError} `device_unavailable`, or a problem with the model file.
 */
export async function runBench({ only, out, ...options }: BenchOptions): Promise<string> {
  const context = await openContext(options), { report } = context;
  let path = "";
  const store = async () => path = await storeLines(out, report.lines);
  const peaks = await withKernels(context, async (bench) => {
    const peaks = await measurePeaks(bench);
    await store();
    for (const [part, run] of KERNEL_PARTS) {
      if (!only.includes(part)) continue;
      await run(bench, peaks);
      await store();
    }
    return peaks;
  });
  if (only.includes("profile")) {
    await withSizes(
      context,
      ["profile"],
      (sizes) => withKernels(context, (bench) => benchProfile(bench, sizes)),
    );
    await store();
  }
  if (only.includes("mask")) {
    await benchMask(context);
    await store();
  }
  const parts = (Object.keys(ENGINE_PARTS) as (keyof typeof ENGINE_PARTS)[]).filter((part) =>
    only.includes(part)
  );
  if (parts.length === 0) return path;
  await withSizes(context, parts, (sizes) =>
    withEngine(context, sizes, async (bench) => {
      for (const part of parts) {
        await ENGINE_PARTS[part](bench, peaks);
        await store();
      }
    }));
  await store();
  return path;
}

/** Facts about the device and the model file. */
async function openContext(
  { model, quick, webgpu, print }: Omit<BenchOptions, "only" | "out">,
): Promise<BenchContext> {
  const shape = await shapeOf(model);
  const gpu = await openBenchGpu(webgpu);
  gpu.device.destroy();
  const { name, driver, backend, software } = gpu.facts;
  const facts = {
    ...{ device: name, driver: driver || (software ? "" : await driverVersion()), backend, webgpu, software },
    ...{ model: basename(model), quick, commit: await currentCommit(), deno: Deno.version.deno },
  };
  print(
    `${name}${facts.driver ? `, driver ${facts.driver}` : ""}, ${backend}; ${facts.model}; ${facts.commit}`,
  );
  return { path: model, shape, report: new Report(facts, print), software, quick, webgpu };
}

async function shapeOf(path: string): Promise<ModelShape> {
  using file = await openGguf(path);
  return readModelShape(file);
}

/** @throws {ServiceError} `config_invalid`, naming an unknown part. */
export function parseParts(text: string): Part[] {
  const names = text.split(",").map((name) => name.trim()).filter((name) => name !== "");
  for (const name of names) {
    if ((PARTS as readonly string[]).includes(name)) continue;
    throw new ServiceError("config_invalid", `Cannot measure ${name}: there are ${PARTS.join(", ")}`);
  }
  return names as Part[];
}

function parseWebGpu(text: string): WebGpuProviderName {
  const name = WEBGPU_PROVIDERS.find((name) => name === text);
  if (name) return name;
  const known = WEBGPU_PROVIDERS.join(", ");
  throw new ServiceError("config_invalid", `Cannot measure the WebGPU of ${text}: there are ${known}`);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      model: { type: "string" },
      quick: { type: "boolean", default: false },
      out: { type: "string", default: fileURLToPath(new URL("../docs/bench", import.meta.url)) },
      only: { type: "string", default: PARTS.join(",") },
      webgpu: { type: "string", default: "deno" },
    },
  });
  const model = values.model ?? await fixturePath("models/tiny-agent-f16.gguf");
  const path = await runBench({
    ...{ model, quick: values.quick, out: values.out, only: parseParts(values.only) },
    webgpu: parseWebGpu(values.webgpu),
    print: (text) => console.log(text),
  });
  console.log(path);
}

if (import.meta.main) {
  prepareGpuEnvironment();
  try {
    await main();
  } catch (error) {
    const is_usage = error instanceof TypeError && "code" in error;
    if (!(error instanceof ServiceError) && !is_usage) throw error;
    console.error(error.message);
    Deno.exit(error instanceof ServiceError && error.code === "device_unavailable" ? 3 : 2);
  }
}
