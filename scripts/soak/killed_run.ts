/** A tiny real run of a server that is killed, and what of it must not depend on that. */

import { join } from "node:path";
import { sha256OfFile } from "../../core/files.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { api, POLL_MS, sending, type Told } from "./killed_client.ts";
import { sleep } from "./part.ts";

export const LEARNING_RATE = 3e-3;
export const ENDED = ["completed", "failed", "cancelled"];
/** An undisturbed run ends sooner. */
export const PATIENCE_MS = 600_000;
/** The processes of a killed server may take this long to be gone. */
export const SHUTDOWN_MS = 15_000;

export const nothingTold = (): Told => ({ names: 0, commands: 0, datasets: 0, events: 0 });

/** Adds what another client was told. */
export function addTold(told: Told, more: Told): void {
  for (const key of ["names", "commands", "datasets", "events"] as const) told[key] += more[key];
}

/** Writes the configurations of a server and of a run. @returns The path of the first and the text of the second. */
export async function writeInputs(
  folder: string,
  updates: number,
): Promise<{ config: string; run: string }> {
  const root = join(folder, "root"), config = join(folder, "server.toml");
  await Deno.mkdir(root);
  const copies = {
    "model.gguf": "models/tiny-agent-f16.gguf",
    "tasks.jsonl": "models/tiny-agent/scenarios.train.jsonl",
  };
  for (const [name, fixture] of Object.entries(copies)) {
    await Deno.copyFile(await fixturePath(fixture), join(root, name));
  }
  await Deno.writeTextFile(
    config,
    `bind = "127.0.0.1:0"
data_dir = ${JSON.stringify(join(folder, "data"))}
path_roots = [${JSON.stringify(root)}]
max_queued_runs = 1  # the process of the run before may still be leaving
[[environments]]
id = "workspace"
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
limits = { exec_timeout_secs = 3600 }
`,
  );
  const run = `
[run]
algorithm = "agent_grpo"
[model]
path = ${JSON.stringify(join(root, "model.gguf"))}
[training]
ctx = 640
lr = ${LEARNING_RATE}
[agent]
scenarios = ${JSON.stringify(join(root, "tasks.jsonl"))}
updates = ${updates}
scenarios_per_update = 1
group_size = 3
max_new_tokens_per_turn = 48
max_rollout_secs = 0
truncation = "min_reward"
[agent.environment]
id = "workspace"
[checkpoint]
every_updates = 1
[observe]
`;
  return { config, run };
}

/** Waits for one of the states. @returns The state then, or after the time. */
export async function stateOf(url: string, states: readonly string[], patience_ms: number): Promise<string> {
  for (let waited = 0;; waited += POLL_MS) {
    const { state } = await api(url);
    if (states.includes(state as string) || waited >= patience_ms) return state as string;
    await sleep(POLL_MS);
  }
}

/** What must not depend on kills, by name: hashes of weights, and texts without what depends on a clock. */
export async function resultsOf(directory: string, updates: number): Promise<Map<string, string>> {
  const last = `checkpoints/update_${String(updates).padStart(6, "0")}`;
  const results = new Map<string, string>();
  for (const name of ["adapter.gguf", `${last}/adapter.gguf`, `${last}/optimizer.safetensors`]) {
    results.set(name, await sha256OfFile(join(directory, name)));
  }
  const record = JSON.parse(await Deno.readTextFile(join(directory, last, "state.json")));
  // Null until it is set, also to the same.
  const { learning_rate: _, ...state } = record.state;
  results.set(`${last}/state.json`, withoutTimes(JSON.stringify(state)));
  for (let update = 1; update <= updates; update++) {
    const name = `trajectories/update_${String(update).padStart(6, "0")}.jsonl`;
    const text = await Deno.readTextFile(join(directory, name));
    results.set(name, text.trimEnd().split("\n").map(withoutTimes).join("\n"));
  }
  return results;
}

function withoutTimes(line: string): string {
  return JSON.stringify(JSON.parse(line, (key, value) => /^time$|_(ms|seconds)$/.test(key) ? 0 : value));
}

/** Creates a run. @returns Its path. */
export async function createRun(url: string, toml: string): Promise<string> {
  const { id } = await api(`${url}/v1/runs`, sending("POST", toml, "application/toml"));
  return `/v1/runs/${id}`;
}

/** Completes a run that nothing disturbs. @returns Its path. */
export async function undisturbedRun(url: string, toml: string): Promise<string> {
  const path = await createRun(url, toml), state = await stateOf(url + path, ENDED, PATIENCE_MS);
  if (state !== "completed") throw new Error(`The run that nothing disturbs is ${state}`);
  return path;
}

/** The names of the results that a run has not, or has with other bytes. */
export async function differentResults(
  expected: ReadonlyMap<string, string>,
  found: { directory: string; updates: number; state: string },
): Promise<string[]> {
  const { directory, updates, state } = found;
  const results = state === "completed" ? await resultsOf(directory, updates) : new Map<string, string>();
  return [...expected].filter(([name, value]) => results.get(name) !== value).map(([name]) => name);
}
