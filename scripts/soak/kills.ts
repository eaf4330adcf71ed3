/**
 * Kills a real server with SIGKILL at random moments of a real run, starts it again and resumes the run, until the run
 * has ended; then compares it with one that nothing disturbed.
 */

import { join } from "node:path";
import { sha256OfFile } from "../../core/files.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { ServerProcess } from "../../tests/server_process.ts";
import { type ShownEvent, shownEvents } from "../../tests/shown_events.ts";
import { firstOf, sleep, type SoakPart } from "./part.ts";

const UPDATES = 6;
const POLL_MS = 50;
const PATIENCE_MS = 600_000;

/** What was found. */
interface KillsResult {
  kills: number;
  runs: number;
  /** Runs that ended with other bytes of the adapter, the optimiser or the trajectories, and in what. */
  different: string[];
  acknowledged_writes: number;
  lost_writes: number;
  events_seen: number;
  /** Events that a client saw and that the log does not have as they were. */
  lost_events: number;
}

const JSON_HEADERS = { "content-type": "application/json" };
const ENDED = ["completed", "failed", "cancelled"];

async function writeInputs(folder: string): Promise<{ config: string; run: string }> {
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
lr = 3e-3
[agent]
scenarios = ${JSON.stringify(join(root, "tasks.jsonl"))}
updates = ${UPDATES}
scenarios_per_update = 2
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

async function api(url: string, init?: RequestInit): Promise<Record<string, unknown>> {
  const response = await fetch(url, init), body = await response.json();
  if (response.ok) return body;
  throw new Error(`${init?.method ?? "GET"} ${url}: ${response.status} ${JSON.stringify(body)}`);
}

/** Waits until the run is in one of the states. */
async function until(url: string, states: readonly string[]): Promise<string> {
  for (let waited = 0; waited < PATIENCE_MS; waited += POLL_MS) {
    const { state } = await api(url);
    if (states.includes(state as string)) return state as string;
    await sleep(POLL_MS);
  }
  throw new Error(`The run did not become ${states.join(" or ")} within ${PATIENCE_MS} ms`);
}

/** What must not depend on kills, by name: hashes of weights, and lines without what depends on a clock. */
async function resultsOf(directory: string): Promise<Map<string, string>> {
  const last = `checkpoints/update_${String(UPDATES).padStart(6, "0")}`;
  const results = new Map<string, string>();
  for (const name of ["adapter.gguf", `${last}/adapter.gguf`, `${last}/optimizer.safetensors`]) {
    results.set(name, await sha256OfFile(join(directory, name)));
  }
  for (let update = 1; update <= UPDATES; update++) {
    const name = `trajectories/update_${String(update).padStart(6, "0")}.jsonl`;
    const text = await Deno.readTextFile(join(directory, name));
    results.set(name, text.trimEnd().split("\n").map(withoutTimes).join("\n"));
  }
  return results;
}

function withoutTimes(line: string): string {
  return JSON.stringify(JSON.parse(line, (key, value) => /^time$|_(ms|seconds)$/.test(key) ? 0 : value));
}

/** A client of one run: it follows the events and renames the run, and remembers what it was told. */
class Client {
  readonly seen = new Map<number, string>();
  acknowledged = 0;
  /** The number of the last name that was sent. */
  sent = 0;

  constructor(readonly path: string) {}

  /** Works until the server is gone. */
  async work(url: string): Promise<void> {
    const follow = async () => {
      const since = Math.max(0, ...this.seen.keys());
      for await (const event of shownEvents(`${url}${this.path}/events`, since)) this.#see(event);
    };
    const rename = async () => {
      while (true) {
        const body = JSON.stringify({ name: `name ${++this.sent}` });
        await api(url + this.path, { method: "PATCH", headers: JSON_HEADERS, body });
        this.acknowledged = this.sent;
        await sleep(POLL_MS);
      }
    };
    await Promise.allSettled([follow(), rename()]);
  }

  #see({ id, kind, data }: ShownEvent): void {
    this.seen.set(id, JSON.stringify([kind, data]));
  }

  /** 1 when the run has an older name than the last one that was acknowledged; the one in flight may have arrived. */
  async lostWrites(url: string): Promise<number> {
    const { name } = await api(url + this.path);
    return this.acknowledged > 0 && Number(/\d+/.exec(name as string)?.[0]) < this.acknowledged ? 1 : 0;
  }

  /** The number of events that were shown and that the log does not have as they were. */
  async lostEvents(url: string): Promise<number> {
    const logged = new Map<number, string>();
    for await (const { id, kind, data } of shownEvents(`${url}${this.path}/events`, 0)) {
      logged.set(id, JSON.stringify([kind, data]));
    }
    return [...this.seen].filter(([id, text]) => logged.get(id) !== text).length;
  }
}

async function createRun(server: ServerProcess, toml: string): Promise<string> {
  const headers = { "content-type": "application/toml" };
  const { id } = await api(`${server.url}/v1/runs`, { method: "POST", headers, body: toml });
  return id as string;
}

/** Kills servers until this number is reached and the last run has ended. */
async function soakKills(
  { count: kills, seed, say }: { count: number; seed: number; say: (text: string) => void },
): Promise<KillsResult> {
  const folder = await Deno.makeTempDir({ prefix: "svc-soak-" }), random = new Rng(rngKey(seed, "kills"));
  const result: KillsResult = {
    ...{ kills: 0, runs: 0, different: [], acknowledged_writes: 0 },
    ...{ lost_writes: 0, events_seen: 0, lost_events: 0 },
  };
  const { config, run } = await writeInputs(folder),
    directory = (id: string) => join(folder, "data/runs", id);
  let server = await ServerProcess.start({ config });
  try {
    const started = performance.now(), undisturbed = await createRun(server, run);
    await until(`${server.url}/v1/runs/${undisturbed}`, ENDED);
    // A server lives at most as long as a run takes: some die while a run starts, some while it ends.
    const life_ms = performance.now() - started;
    const expected = await resultsOf(directory(undisturbed));
    while (result.kills < kills) {
      const id = await createRun(server, run), client = new Client(`/v1/runs/${id}`);
      for (let state = ""; !ENDED.includes(state);) {
        const working = client.work(server.url);
        await sleep(random.uniform() * life_ms);
        await server.stop("SIGKILL");
        await working;
        server = await ServerProcess.start({ config });
        state = await until(server.url + client.path, [...ENDED, "interrupted"]);
        result.lost_writes += await client.lostWrites(server.url);
        say(`kill ${++result.kills}: ${state}`);
        if (state === "interrupted") await api(`${server.url}${client.path}/resume`, { method: "POST" });
      }
      const found = await resultsOf(directory(id));
      for (const [name, value] of expected) {
        if (found.get(name) !== value) result.different.push(`${id} ${name}`);
      }
      result.runs++;
      result.acknowledged_writes += client.acknowledged;
      result.events_seen += client.seen.size;
      result.lost_events += await client.lostEvents(server.url);
    }
    return result;
  } finally {
    await server.stop("SIGTERM");
    await Deno.remove(folder, { recursive: true });
  }
}

/** D1: nothing is lost, and a run that was killed ends as one that was not. */
export const kills: SoakPart = {
  what: "kills a server that trains at random moments, and compares its runs with one that nothing disturbed",
  full: { count: 200, minutes: Infinity },
  async run(options) {
    const { different, ...found } = await soakKills(options);
    const { lost_writes, lost_events } = found;
    const failures = firstOf(different);
    if (lost_writes > 0) failures.push(`${lost_writes} acknowledged writes are lost`);
    if (lost_events > 0) failures.push(`${lost_events} events that were shown are lost`);
    return { failures, ...found };
  },
};
