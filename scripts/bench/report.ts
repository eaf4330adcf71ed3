/** The results of a bench run: lines for the terminal, JSON lines for the record. */

import { writeFileAtomic } from "../../core/files.ts";
import type { WebGpuProviderName } from "../../core/webgpu_providers.ts";

/** One measurement. `value` is null when it was not possible, and `skipped` is the reason. */
export interface Measurement {
  /**
   * The part of the bench: `peak`, `matmul`, `lora`, `attention`, `profile`, `prefill`, `decode`, `train`, `bytes`,
   * `mask`.
   */
  bench: string;
  /** The name of the measurement; with `bench`, the model and the WebGPU it is the line's key. */
  name: string;
  value: number | null;
  unit: string;
  skipped?: string;
  /** Shapes, counts and other values of the same measurement. */
  [field: string]: unknown;
}

/** Facts about the machine and the run, in every line. */
export interface RunFacts {
  device: string;
  driver: string;
  backend: string;
  /** The WebGPU implementation. */
  webgpu: WebGpuProviderName;
  /** True for a software adapter, whose figures say nothing about a GPU. */
  software: boolean;
  /** The model file's name. */
  model: string;
  /** Fewer and shorter repetitions. */
  quick: boolean;
  commit: string;
  deno: string;
}

/** A line of the file. */
export type BenchLine = Measurement & RunFacts & {
  /** RFC 3339, UTC. */
  time: string;
  /** The machine's load average over the last minute, this process included. */
  load_average: number;
};

/** Collects a run's lines and prints each at once. */
export class Report {
  readonly lines: BenchLine[] = [];

  constructor(readonly facts: RunFacts, readonly print: (text: string) => void) {}

  add(measurement: Measurement): void {
    const load_average = round(Deno.loadavg()[0] ?? 0);
    this.lines.push({ ...measurement, ...this.facts, time: new Date().toISOString(), load_average });
    this.print(readable(measurement));
  }

  /** Reports that a measurement is not possible here, with the reason. */
  skip(bench: string, name: string, reason: string): void {
    this.add({ bench, name, value: null, unit: "", skipped: reason });
  }
}

/** Four significant digits: more would be noise. */
export function round(value: number): number {
  return Number(value.toPrecision(4));
}

/** `matmul  q_proj nt f16, 32 rows  12.3 GFLOP/s  (31 % of the peak)` */
export function readable({ bench, name, value, unit, skipped, ...rest }: Measurement): string {
  const head = `${bench.padEnd(10)} ${name.padEnd(52)}`;
  if (value === null) return `${head} skipped: ${skipped}`;
  const share = (field: string, of: string) =>
    typeof rest[field] === "number" ? `${(100 * rest[field]).toFixed(1)} % of ${of}` : null;
  const notes = [
    share("share_of_peak", "the peak"),
    share("share_of_bandwidth", "the bandwidth"),
    share("share_of_step", "the step"),
  ].filter((note) => note !== null);
  return `${head} ${String(value).padStart(9)} ${unit}${notes.length ? `  (${notes.join(", ")})` : ""}`;
}

/** A device's name as a file name: `llvmpipe_llvm_15_0_6_256_bits`. */
export function deviceSlug(device: string): string {
  return device.toLowerCase().replaceAll(/[^a-z0-9]+/g, "_").replaceAll(/^_|_$/g, "") || "unknown";
}

/** Earlier lines of a file that the run did not measure again, then the run's lines. */
function mergeLines(earlier: readonly BenchLine[], lines: readonly BenchLine[]): BenchLine[] {
  // Older lines have no `webgpu`, and were measured with Deno's.
  const part = ({ bench, model, webgpu = "deno" }: BenchLine) => `${bench} of ${model} on ${webgpu}`;
  const measured = new Set(lines.map(part));
  return [...earlier.filter((line) => !measured.has(part(line))), ...lines];
}

/**
 * Writes a run's lines to `<out>/<device>.jsonl`, or to `out` itself when it ends in `.jsonl`. Lines of parts, models or
 * WebGPU implementations that the run did not measure stay. @returns The file's path.
 */
export async function storeLines(out: string, lines: readonly BenchLine[]): Promise<string> {
  const path = out.endsWith(".jsonl") ? out : `${out}/${deviceSlug(lines[0]!.device)}.jsonl`;
  const merged = mergeLines(await readLines(path), lines);
  await writeFileAtomic(path, merged.map((line) => JSON.stringify(line) + "\n").join(""));
  return path;
}

/** The lines of a bench's file; none when there is no file. */
export async function readLines(path: string): Promise<BenchLine[]> {
  try {
    const text = await Deno.readTextFile(path);
    return text.split("\n").filter((line) => line !== "").map((line) => JSON.parse(line));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

/** The measured commit, followed by `-dirty` when files differ; `unknown` outside a repository. */
export async function currentCommit(): Promise<string> {
  const described = await outputOf("git", ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]);
  return described ?? "unknown";
}

/** The processor and its cores, for measurements that no GPU takes part in. */
export async function machineName(): Promise<string> {
  const cpu = await Deno.readTextFile("/proc/cpuinfo").catch(() => "");
  const name = /model name\s*:\s*(.*)/.exec(cpu)?.[1] ?? "unknown";
  return `${name}, ${navigator.hardwareConcurrency} cores`;
}

/** The driver's version, which WebGPU does not report: from the vendor's tool if there is one. */
export async function driverVersion(): Promise<string> {
  const args = ["--query-gpu=driver_version", "--format=csv,noheader"];
  return (await outputOf("nvidia-smi", args))?.split("\n")[0] ?? "";
}

async function outputOf(command: string, args: string[]): Promise<string | null> {
  try {
    const { success, stdout } = await new Deno.Command(command, { args, stderr: "null" }).output();
    return success ? new TextDecoder().decode(stdout).trim() : null;
  } catch {
    return null;
  }
}
