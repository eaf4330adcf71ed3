/**
 * Compares a bench of the 0.5B shape with what it must reach on an H100, and what it should: prints a line for each, and
 * writes them as JSON. An H200 has the same multiprocessors and more bandwidth; each line names the device.
 *
 *   deno run -A scripts/bench_targets.ts <out.json> <bench.jsonl>...
 */

import type { WebGpuProviderName } from "../core/webgpu_providers.ts";
import type { BenchLine } from "./bench/report.ts";

/** Tokens per second on an H100. */
interface Target {
  bench: string;
  /** How the measurement's name begins; of several the best counts. */
  name: string;
  webgpu: WebGpuProviderName;
  must: number;
  aim: number;
}

const TARGETS: readonly Target[] = [
  { bench: "train", name: "sft", webgpu: "deno", must: 7_000, aim: 11_000 },
  { bench: "train", name: "sft", webgpu: "dawn", must: 20_000, aim: 45_000 },
  { bench: "decode", name: "", webgpu: "deno", must: 8_000, aim: 18_000 },
  { bench: "decode", name: "", webgpu: "dawn", must: 18_000, aim: 35_000 },
];

/** An H100 or H200, as each WebGPU spells it. */
const COMPARABLE = /\bh[12]00\b/i;

/** A target with what was measured; `value` is null where nothing was. */
export interface Comparison extends Omit<Target, "name"> {
  name: string;
  value: number | null;
  device: string;
  is_met: boolean | null;
}

/** The best measurement of each target. A software adapter, and another shape or device, meets or misses nothing. */
export function compareTargets(lines: readonly BenchLine[]): Comparison[] {
  return TARGETS.map((target) => {
    const fitting = lines.filter(({ bench, name, webgpu, value, unit }) =>
      bench === target.bench && name.startsWith(target.name) && webgpu === target.webgpu &&
      value !== null && unit === "tokens/s"
    );
    const [best] = fitting.toSorted((a, b) => b.value! - a.value!);
    const is_comparable = best !== undefined && COMPARABLE.test(best.device) && best.model === "half.gguf";
    return {
      ...target,
      name: best?.name ?? target.name,
      value: best?.value ?? null,
      device: best?.device ?? "",
      is_met: is_comparable ? best.value! >= target.must : null,
    };
  });
}

if (import.meta.main) {
  const [to, ...files] = Deno.args;
  if (!to || files.length === 0) {
    console.error("Usage: deno run -A scripts/bench_targets.ts <out.json> <bench.jsonl>...");
    Deno.exit(2);
  }
  // A bench of an implementation that is not there has no file.
  const texts = await Promise.all(files.map((file) => Deno.readTextFile(file).catch(() => "")));
  const lines = texts.flatMap((text) => text.split("\n")).filter((line) => line !== "");
  const compared = compareTargets(lines.map((line) => JSON.parse(line)));
  for (const { bench, name, webgpu, value, must, aim, is_met, device } of compared) {
    const verdict = is_met === null ? "not comparable" : is_met ? "met" : "MISSED";
    console.log(
      `${bench} ${name} (${webgpu}${device && `, ${device}`}): ${
        value ?? "not measured"
      } tokens/s; must ${must}, aim ${aim}: ${verdict}`,
    );
  }
  await Deno.writeTextFile(to, JSON.stringify(compared, null, 2) + "\n");
}
