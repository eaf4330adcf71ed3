/**
 * `deno task bench-service [--repeat <n>] [--quick]`: what a server does while one of its runs trains on the same
 * processors. Prints each measurement and stores them in docs/bench/service.jsonl. Nothing asserts a time.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeFileAtomic } from "../core/files.ts";
import { currentCommit, machineName } from "./bench/report.ts";
import { measureFollowers } from "./bench_service/followers.ts";
import type { LoadResult } from "./bench_service/load.ts";
import { startTraining, type TrainingServer } from "./bench_service/training_server.ts";
import { measureUpload } from "./bench_service/upload.ts";

const RESULTS = fileURLToPath(new URL("../docs/bench/service.jsonl", import.meta.url));
const LOAD = fileURLToPath(new URL("bench_service/load.ts", import.meta.url));

/** The client is a process of its own: its work is not the server's. */
async function measureLoad(
  { url }: TrainingServer,
  per_second: number,
  seconds: number,
): Promise<LoadResult> {
  const args = ["run", "-A", LOAD, `${url}/v1/runs`, String(per_second), String(seconds)];
  const { stdout, success } = await new Deno.Command(Deno.execPath(), { args, stderr: "inherit" }).output();
  if (!success) throw new Error("The client of the load failed");
  return JSON.parse(new TextDecoder().decode(stdout));
}

if (import.meta.main) {
  const { values } = parseArgs({ options: { repeat: { type: "string" }, quick: { type: "boolean" } } });
  const repeat = Number(values.repeat ?? 3), is_quick = values.quick ?? false;
  const facts = { machine: await machineName(), commit: await currentCommit(), deno: Deno.version.deno };
  const lines: string[] = [];
  const add = (bench: string, i: number, result: object) => {
    const rounded = Object.entries(result).map(([name, value]) => [name, Number(value.toPrecision(4))]);
    const [load_average] = Deno.loadavg(), time = new Date().toISOString();
    const line = { bench, repetition: i + 1, ...Object.fromEntries(rounded), ...facts, load_average, time };
    lines.push(JSON.stringify(line));
    console.log(bench, Object.fromEntries(rounded));
  };
  await using training = await startTraining();
  for (let i = 0; i < repeat; i++) {
    add("load", i, await measureLoad(training, 2000, is_quick ? 1 : 10));
    add(
      "followers",
      i,
      await measureFollowers(
        training,
        is_quick ? { followers: 50, events: 2 } : { followers: 1000, events: 10 },
      ),
    );
    add("upload", i, await measureUpload(training, is_quick ? 10e6 : 1e9));
  }
  if (!is_quick) await writeFileAtomic(RESULTS, `${lines.join("\n")}\n`);
}
