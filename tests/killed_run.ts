/** Runs that are killed and resumed beside one that was not: what they leave must be the same. */

import assert from "node:assert/strict";
import { join } from "node:path";
import type { RunEvent } from "../runs/record/event.ts";
import { type Keys, writeSmallAgent } from "./small_agent.ts";

/** Makes a folder with the configuration of a run of these keys. */
export async function configIn(root: string, name: string, keys: Keys): Promise<string> {
  await Deno.mkdir(join(root, name));
  return await writeSmallAgent(join(root, name), {
    "run.directory": "run",
    "checkpoint.every_updates": 1,
    ...keys,
  });
}

/** Trajectories of an update without the fields that depend on a clock. */
async function trajectories(root: string, update: number): Promise<unknown[]> {
  const text = await Deno.readTextFile(join(root, `run/trajectories/update_00000${update}.jsonl`));
  return text.trimEnd().split("\n").map((line) =>
    JSON.parse(line, (key, value) => key === "time" || /_(ms|seconds)$/.test(key) ? 0 : value)
  );
}

/** Whether two runs of so many updates in the folders `whole` and `killed` left the same. */
export async function assertSameRuns(root: string, updates: number): Promise<void> {
  const [whole, killed] = [join(root, "whole"), join(root, "killed")];
  const files = ["run/adapter.gguf", `run/checkpoints/update_00000${updates}/optimizer.safetensors`];
  for (const file of files) {
    const [a, b] = [await Deno.readFile(join(whole, file)), await Deno.readFile(join(killed, file))];
    assert.ok(a.length > 0 && a.every((byte, i) => byte === b[i]) && a.length === b.length, file);
  }
  assert.deepEqual(await trajectories(killed, updates), await trajectories(whole, updates));
  const log = (await Deno.readTextFile(join(killed, "run/events.jsonl"))).trimEnd().split("\n");
  assert.deepEqual(log.map((line) => JSON.parse(line).seq), log.map((_, i) => i + 1));
}

/** Where to kill a run: at the event of an update. */
export const isUpdate = (number: number) => (event: RunEvent) =>
  event.kind === "update" && event.update === number;
