/**
 * `./dev serve [server.toml]`: runs `svc-server`. Without a configuration it takes examples/server.toml and, at the first
 * start, stores the examples' data as datasets.
 */

import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { endProcess } from "../cli/end_process.ts";
import { prepareGpuEnvironment } from "../cli/environment.ts";
import { runServerProgram } from "../cli/server_program.ts";
import { processTerminal } from "../cli/terminal.ts";
import type { DataKind } from "../config/algorithms.ts";
import { loadServerConfig } from "../config/server/load.ts";
import { systemClock } from "../core/clock.ts";
import { isPresent } from "../core/files.ts";
import { checkDataset } from "../runs/datasets/check_dataset.ts";
import { DatasetStore } from "../runs/datasets/dataset_store.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** The server of the examples. */
export const EXAMPLE_SERVER = join(ROOT, "examples", "server.toml");

/** What is stored at the first start; the last one is the first of the list. */
const EXAMPLE_DATA: readonly { name: string; kind: DataKind; path: string }[] = [
  { name: "held-out pairs", kind: "preference", path: "examples/tiny_agent_pairs.heldout.jsonl" },
  { name: "pairs of answers", kind: "preference", path: "examples/tiny_agent_pairs.train.jsonl" },
  { name: "example conversations", kind: "sft", path: "fixtures/models/tiny-agent/sft-traces.jsonl" },
  { name: "held-out file tasks", kind: "scenarios", path: "examples/tiny_agent_tasks.heldout.jsonl" },
  { name: "file tasks", kind: "scenarios", path: "examples/tiny_agent_tasks.train.jsonl" },
];

/** Stores the examples' data in a server's folder, unless it has had datasets before. */
export async function storeExampleData(data_dir: string): Promise<void> {
  const folder = join(data_dir, "datasets");
  if (await isPresent(folder)) return;
  const store = new DatasetStore({ folder, clock: systemClock, check: (request) => checkDataset(request) });
  for (const { path, ...facts } of EXAMPLE_DATA) {
    const { readable: stream } = await Deno.open(join(ROOT, path));
    await store.create({ ...facts, stream, signal: AbortSignal.timeout(60_000) });
  }
}

async function main(args: readonly string[]): Promise<number> {
  const terminal = processTerminal("svc-server"), entry_url = new URL("../cli.ts", import.meta.url).href;
  if (args.length > 0) return await runServerProgram(args, { entry_url, terminal });
  const { data_dir } = await loadServerConfig(EXAMPLE_SERVER);
  await storeExampleData(data_dir);
  terminal.error(`dev: a server with the examples; everything it writes goes to ${data_dir}`);
  return await runServerProgram([EXAMPLE_SERVER], { entry_url, terminal });
}

if (import.meta.main) {
  prepareGpuEnvironment();
  endProcess(await main(Deno.args));
}
