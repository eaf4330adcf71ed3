/**
 * `deno task bench-service [--repeat <n>] [--quick]`: what a server does while one of its runs trains on the same
 * processors. `load_plain` is `load` against a server that does nothing but answer, beside the same training. Prints each
 * measurement and stores them in docs/bench/service.jsonl. Nothing asserts a time.
 */

import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { writeFileAtomic } from "../core/files.ts";
import { currentCommit, machineName } from "./bench/report.ts";
import { measureFollowers } from "./bench_service/followers.ts";
import type { LoadResult } from "./bench_service/load.ts";
import { startTraining } from "./bench_service/training_server.ts";
import { measureUpload } from "./bench_service/upload.ts";

const RESULTS = fileURLToPath(new URL("../docs/bench/service.jsonl", import.meta.url));
const LOAD = fileURLToPath(new URL("bench_service/load.ts", import.meta.url));
const PLAIN = fileURLToPath(new URL("bench_service/plain_server.ts", import.meta.url));

/** The client is a process of its own: its work is not the server's. */
async function measureLoad(url: string, per_second: number, seconds: number): Promise<LoadResult> {
  const args = ["run", "-A", LOAD, url, String(per_second), String(seconds)];
  const { stdout, success } = await new Deno.Command(Deno.execPath(), { args, stderr: "inherit" }).output();
  if (!success) throw new Error("The client of the load failed");
  return JSON.parse(new TextDecoder().decode(stdout));
}

async function measurePlainLoad(per_second: number, seconds: number): Promise<LoadResult> {
  const plain = new Deno.Command(Deno.execPath(), { args: ["run", "-A", PLAIN], stdout: "piped" }).spawn();
  try {
    for await (const line of plain.stdout.pipeThrough(new TextDecoderStream())) {
      return await measureLoad(line.trim(), per_second, seconds);
    }
    throw new Error("The plain server did not start");
  } finally {
    plain.kill("SIGKILL");
    await plain.status;
  }
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
    const seconds = is_quick ? 1 : 10;
    add("load", i, await measureLoad(`${training.url}/v1/runs`, 2000, seconds));
    add("load_plain", i, await measurePlainLoad(2000, seconds));
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
