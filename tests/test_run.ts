/** A complete run with the scripted engine, and what it left in its folder. */

import * as testing from "../runs/run_fake.ts";
import type { StartedRun } from "../runs/process/process.ts";
import { ScriptedEngine } from "../trainer/engine/scripted_engine_fake.ts";

/** As that of run_fake.ts, whose room may not import the engine. */
export function startTestRun(options: Omit<testing.TestRunOptions, "newEngine">): Promise<StartedRun> {
  return testing.startTestRun({ ...options, newEngine: (refuse) => new ScriptedEngine({ refuse }).client });
}

/** The adapter of the run in `root`. */
export function adapterOf(root: string): Promise<string> {
  return Deno.readTextFile(`${root}/runs/test/adapter.gguf`);
}

/** The record of the run in `root`. */
export async function recordOf(root: string) {
  return JSON.parse(await Deno.readTextFile(`${root}/runs/test/run.json`));
}
