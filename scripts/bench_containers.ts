/**
 * `deno task bench-containers [--repeat <n>]`: what a container and a call in it cost on an idle machine. Prints each
 * measurement and stores them in docs/bench/containers.jsonl. Nothing asserts a time.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { containerEnvironments } from "../agent/environment/container.ts";
import { labEngine, labOptions } from "../agent/environment/container_testing.ts";
import { scenarioWith } from "../agent/environment/environment_contract.ts";
import { writeFileAtomic } from "../core/files.ts";
import { currentCommit, machineName } from "./bench/report.ts";
import { percentile, rounded } from "./soak/part.ts";

const RESULTS = fileURLToPath(new URL("../docs/bench/containers.jsonl", import.meta.url));

async function timed(repeat: number, work: () => Promise<unknown>): Promise<number[]> {
  const took: number[] = [];
  for (let i = 0; i < repeat; i++) {
    const started = performance.now();
    await work();
    took.push(performance.now() - started);
  }
  return took;
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { repeat: { type: "string" } } });
  const repeat = Number(values.repeat ?? 300), { signal } = new AbortController();
  const options = await labOptions({ pool: { max_live: 1 } });
  const factory = containerEnvironments(options);
  const scenario = scenarioWith({ summary: ["true"], verify: { command: ["true"] } });
  const open = () => factory.open(scenario, { seed: 1, signal });
  const lines: object[] = [];
  const { name, version, runtimes } = labEngine();
  const facts = {
    ...{ machine: await machineName(), commit: await currentCommit(), deno: Deno.version.deno },
    ...{ engine: `${name} ${version}`, runtime: runtimes[0], load_average: rounded(Deno.loadavg()[0] ?? 0) },
    time: new Date().toISOString(),
  };
  const add = (bench: string, took: number[]) => {
    const [p50, p95] = [0.5, 0.95].map((share) => rounded(percentile(took, share)));
    lines.push({ bench, p50, p95, unit: "ms", repeat: took.length, ...facts });
    console.log(`${bench.padEnd(24)} p50 ${p50} ms, p95 ${p95} ms`);
  };
  const opened = await open();
  add("call, a program", await timed(repeat, () => opened.state(signal)));
  const write = { id: "1", name: "write_file", arguments: { path: "a", content: "text" } };
  add("call, write_file", await timed(repeat, () => opened.call(write, signal)));
  const read = { id: "1", name: "read_file", arguments: { path: "a" } };
  add("call, read_file", await timed(repeat, () => opened.call(read, signal)));
  await opened.close();
  const each = Math.ceil(repeat / 20);
  add("open, nothing ready", await timed(each, async () => await (await open()).close()));
  const graded = await open();
  add("verify, another container", await timed(each, () => graded.grade(signal)));
  await graded.close();
  await factory.close();
  await Deno.remove(options.owners_folder, { recursive: true });
  await writeFileAtomic(RESULTS, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
}
