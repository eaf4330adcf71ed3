/**
 * `deno task bench-host [--gpu] [--rows <n>[,<n>]]`: the host's time for a dispatch in decode steps of a model of 0.5 billion
 * parameters, from the engine's batcher to the driver. Without `--gpu` the device is an AMD GPU that is not there, whose driver drops the
 * commands (scripts/static_gpu): what is measured is this program, V8 and Deno's WebGPU, and no driver. Prints each line and
 * stores them in docs/bench/host.jsonl, with `--gpu` gpu_host.jsonl, or in `--out <file>`. Nothing asserts a time.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeFileAtomic } from "../core/files.ts";
import { assumedGpu } from "../kernels/assumed_gpu.ts";
import { type Gpu, NEEDED_LIMITS, openGpu } from "../kernels/device.ts";
import { webGpuProvider } from "../kernels/webgpu/choose_provider.ts";
import { measureHostTimes } from "./bench/host.ts";
import { currentCommit, machineName } from "./bench/report.ts";
import { missingCompiler, runWithoutGpu } from "./static_gpu/radv.ts";

const RESULTS = fileURLToPath(new URL("../docs/bench/host.jsonl", import.meta.url));
const GPU_RESULTS = fileURLToPath(new URL("../docs/bench/gpu_host.jsonl", import.meta.url));

/** The device in a process of {@link runWithoutGpu}. Opening it as {@link openGpu} does would run commands. */
async function openWithoutCommands(): Promise<Gpu> {
  const adapter = await webGpuProvider("deno").gpu()!.requestAdapter();
  const card = assumedGpu(), { maxBufferSize, maxStorageBufferBindingSize } = adapter!.limits;
  const device = await adapter!.requestDevice({
    requiredFeatures: card.facts.features as GPUFeatureName[],
    requiredLimits: { ...NEEDED_LIMITS, maxBufferSize, maxStorageBufferBindingSize },
  });
  return { ...card, device };
}

function numbersOf(rows: string): number[] {
  return rows.split(",").map(Number);
}

async function benchHost(rows: string, { out, on_gpu }: { out: string; on_gpu: boolean }): Promise<void> {
  const gpu = on_gpu ? await openGpu({ device: "auto", webgpu: "deno" }) : null;
  const on_host = gpu?.facts.software ? "a software adapter computes on the host's processors" : null;
  const missing = gpu ? on_host : await missingCompiler();
  if (missing) {
    console.log(`skipped: ${missing}`);
    return gpu?.device.destroy();
  }
  const device = gpu ? gpu.facts.name : "none, commands are dropped";
  const times = gpu
    ? await measureHostTimes({ gpu, runs_commands: true }, numbersOf(rows))
    : JSON.parse(await runWithoutGpu("gfx1100", ["bench_host.ts", "--here", "--rows", rows]));
  const facts = {
    machine: await machineName(),
    commit: await currentCommit(),
    time: new Date().toISOString(),
  };
  const lines = times.map((time: object) => ({
    bench: "host",
    device,
    webgpu: "deno",
    unit: "µs",
    ...time,
    ...facts,
  }));
  for (const line of lines) console.log(line);
  await writeFileAtomic(out, lines.map((line: object) => JSON.stringify(line) + "\n").join(""));
  gpu?.device.destroy();
}

if (import.meta.main) {
  const { values } = parseArgs({
    options: {
      gpu: { type: "boolean", default: false },
      // In the process of runWithoutGpu.
      here: { type: "boolean", default: false },
      rows: { type: "string", default: "1,8,64,256" },
      out: { type: "string" },
    },
  });
  if (values.here) {
    const device = { gpu: await openWithoutCommands(), runs_commands: false };
    console.log(JSON.stringify(await measureHostTimes(device, numbersOf(values.rows))));
    // The device was never one: leaving by the usual way would wait for it.
    Deno.exit(0);
  }
  const { gpu: on_gpu, out = on_gpu ? GPU_RESULTS : RESULTS } = values;
  await benchHost(values.rows, { out, on_gpu });
}
