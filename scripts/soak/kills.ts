/**
 * Kills a real server with SIGKILL at random moments of a real run, starts it again and resumes the run, until the run
 * has ended; then compares it with one that nothing disturbed.
 */

import { join } from "node:path";
import { sha256OfFile } from "../../core/files.ts";
import { Rng, rngKey } from "../../core/random.ts";
import { fixturePath } from "../../tests/fixture.ts";
import { ServerProcess } from "../../tests/server_process.ts";
import { api, KilledClient, POLL_MS, sending, type Told } from "./killed_client.ts";
import { firstOf, sleep, type SoakOptions, type SoakPart } from "./part.ts";

const UPDATES = 4, LEARNING_RATE = 3e-3;
const PATIENCE_MS = 600_000;
/** The processes of a killed server may take this long to be gone. */
const SHUTDOWN_MS = 15_000;
const ENDED = ["completed", "failed", "cancelled"];

/** What was found. */
interface KillsResult {
  kills: number;
  /** By the state in which the next server found the run. */
  found: Record<string, number>;
  runs: number;
  /** What clients were told. */
  told: Told;
  /** Runs that ended with other bytes of the adapter, the optimiser, the state or the trajectories, and in what. */
  different: string[];
  /** What a client was told and the next server does not have. */
  missing: string[];
  wrong: string[];
}

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
lr = ${LEARNING_RATE}
[agent]
scenarios = ${JSON.stringify(join(root, "tasks.jsonl"))}
updates = ${UPDATES}
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
async function stateOf(url: string, states: readonly string[], patience_ms: number): Promise<string> {
  for (let waited = 0;; waited += POLL_MS) {
    const { state } = await api(url);
    if (states.includes(state as string) || waited >= patience_ms) return state as string;
    await sleep(POLL_MS);
  }
}

/** What must not depend on kills, by name: hashes of weights, and texts without what depends on a clock. */
async function resultsOf(directory: string): Promise<Map<string, string>> {
  const last = `checkpoints/update_${String(UPDATES).padStart(6, "0")}`;
  const results = new Map<string, string>();
  for (const name of ["adapter.gguf", `${last}/adapter.gguf`, `${last}/optimizer.safetensors`]) {
    results.set(name, await sha256OfFile(join(directory, name)));
  }
  const record = JSON.parse(await Deno.readTextFile(join(directory, last, "state.json")));
  // Null until it is set, also to the same.
  const { learning_rate: _, ...state } = record.state;
  results.set(`${last}/state.json`, withoutTimes(JSON.stringify(state)));
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

/** Creates a run. @returns Its path. */
async function createRun(url: string, toml: string): Promise<string> {
  const { id } = await api(`${url}/v1/runs`, sending("POST", toml, "application/toml"));
  return `/v1/runs/${id}`;
}

/** A server that is killed and started again. */
class KilledServer {
  #server: ServerProcess;

  private constructor(readonly config: string, server: ServerProcess) {
    this.#server = server;
  }

  static async start(config: string): Promise<KilledServer> {
    return new KilledServer(config, await ServerProcess.start({ config }));
  }

  get url(): string {
    return this.#server.url;
  }

  async kill(): Promise<void> {
    await this.#server.stop("SIGKILL");
  }

  async startAgain(): Promise<void> {
    this.#server = await ServerProcess.start({ config: this.config });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.stop();
  }
}

/** Kills the server of a run until the run has ended. @returns Its last state. */
async function killUntilEnded(
  server: KilledServer,
  { path, client, life, say }: {
    path: string;
    client: KilledClient;
    /** The milliseconds until the next kill. */
    life: () => number;
    say: (state: string, missing: readonly string[]) => void;
  },
): Promise<string> {
  let state = "";
  while (!ENDED.includes(state)) {
    const working = client.work(server.url);
    await sleep(life());
    await server.kill();
    await working;
    await server.startAgain();
    state = await stateOf(server.url + path, [...ENDED, "interrupted", "paused"], SHUTDOWN_MS);
    say(state, await client.missing(server.url));
    // A run that waited for its slot goes on by itself.
    if (["interrupted", "paused"].includes(state)) await client.resume(server.url);
  }
  return state;
}

/** Kills servers until there were enough or the time is over, and the last run has ended. */
async function soakKills({ count: kills, minutes, seed, say }: SoakOptions): Promise<KillsResult> {
  const folder = await Deno.makeTempDir({ prefix: "svc-soak-" }), random = new Rng(rngKey(seed, "kills"));
  const result: KillsResult = {
    ...{ kills: 0, found: {}, runs: 0, told: { names: 0, commands: 0, datasets: 0, events: 0 } },
    ...{ different: [], missing: [], wrong: [] },
  };
  const { config, run } = await writeInputs(folder);
  const directory = (path: string) => join(folder, "data/runs", path.slice("/v1/runs/".length));
  try {
    await using server = await KilledServer.start(config);
    const started = performance.now(), undisturbed = await createRun(server.url, run);
    const ended = await stateOf(server.url + undisturbed, ENDED, PATIENCE_MS);
    if (ended !== "completed") throw new Error(`The run that nothing disturbs is ${ended}`);
    // A server lives at most as long as a run takes: some die while a run starts, some while it ends.
    const life_ms = performance.now() - started, life = () => random.uniform() * life_ms;
    say(`a run takes ${Math.round(life_ms)} ms`);
    const expected = await resultsOf(directory(undisturbed));
    while (result.kills < kills && performance.now() - started < minutes * 60_000) {
      const path = await createRun(server.url, run);
      const client = new KilledClient(path, { lr: LEARNING_RATE, seed: seed + result.runs });
      const end = await killUntilEnded(server, {
        ...{ path, client, life },
        say(state, missing) {
          result.missing.push(...missing);
          result.found[state] = (result.found[state] ?? 0) + 1;
          say(`kill ${++result.kills}: ${state} ${missing}`);
        },
      });
      const found = end === "completed" ? await resultsOf(directory(path)) : new Map<string, string>();
      for (const [name, value] of expected) {
        if (found.get(name) !== value) result.different.push(`${path} ${name}`);
      }
      result.runs++;
      result.missing.push(...await client.missingEvents(server.url));
      result.wrong.push(...client.wrong);
      for (const key of ["names", "commands", "datasets", "events"] as const) {
        result.told[key] += client.told[key];
      }
    }
    return result;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** D1: nothing is lost, and a run that was killed ends as one that was not. */
export const kills: SoakPart = {
  what: "kills a server that trains at random moments, and compares its runs with one that nothing disturbed",
  full: { count: 200, minutes: Infinity },
  async run(options) {
    const { different, missing, wrong, ...found } = await soakKills(options);
    return { failures: [different, missing, wrong].flatMap((failures) => firstOf(failures)), ...found };
  },
};
