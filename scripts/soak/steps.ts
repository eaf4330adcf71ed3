/**
 * Kills a real server, or a process of its run, when it begins a call that makes or publishes a file; starts the server
 * again and resumes the run, until there was a kill at each such call; then compares the runs with one that nothing
 * disturbed.
 */

import { join } from "node:path";
import { ServerProcess } from "../../tests/server_process.ts";
import { DurableSteps } from "./durable_steps.ts";
import { api, KilledClient, POLL_MS, sending, type Told } from "./killed_client.ts";
import {
  addTold,
  differentResults,
  ENDED,
  LEARNING_RATE,
  nothingTold,
  PATIENCE_MS,
  resultsOf,
  SHUTDOWN_MS,
  stateOf,
  undisturbedRun,
  writeInputs,
} from "./killed_run.ts";
import { firstOf, sleep, type SoakOptions, type SoakPart } from "./part.ts";
import { checkStrace, TracedServer } from "./traced_server.ts";

const UPDATES = 2;
const RESUMABLE = ["interrupted", "paused"];
/** Steps at which no process could be killed are tried again in so many runs. */
const MORE_RUNS = 1;

interface Findings {
  runs: number;
  told: Told;
  /** Runs that ended with other bytes, and in what. */
  different: string[];
  /** What a client was told and the next server does not have. */
  missing: string[];
  wrong: string[];
}

interface Given {
  server: TracedServer;
  /** Whether processes may be killed. */
  mayKill: () => boolean;
  findings: Findings;
  say: (text: string) => void;
}

/** Notes failures, and tells of them at once: a complete run is long. */
function note(
  { findings, say }: Given,
  kind: "different" | "missing" | "wrong",
  failures: readonly string[],
): void {
  for (const failure of failures) say(`${kind}: ${failure}`);
  findings[kind].push(...failures);
}

/** Does something that the server may die of, again after each kill, until it is done. */
async function insist<T>(given: Given, work: (url: string) => Promise<T>): Promise<T> {
  const { server } = given;
  while (true) {
    await server.start(given.mayKill());
    server.arm(given.mayKill());
    try {
      return await work(server.url);
    } catch (error) {
      if (!server.killed) throw error;
    } finally {
      server.arm(false);
      if (server.killed) await server.end("SIGKILL");
    }
  }
}

/** Creates a run once, however often the server dies. @returns Its path. */
async function createdRun(given: Given, toml: string): Promise<string> {
  const { method, body, headers } = sending("POST", toml, "application/toml");
  const init = {
    method,
    body,
    headers: { ...headers, "idempotency-key": `run_${given.findings.runs}` },
  } as RequestInit;
  const { id } = await insist(given, (url) => api(`${url}/v1/runs`, init));
  await checkRuns(given, 2);
  return `/v1/runs/${id}`;
}

async function checkRuns(given: Given, expected: number): Promise<void> {
  const { server, mayKill } = given;
  await server.start(mayKill());
  const { runs } = await api(`${server.url}/v1/runs`), { length } = runs as unknown[];
  if (length !== expected) note(given, "wrong", [`${length} runs instead of ${expected}`]);
}

/** Follows a run and kills its processes until it has ended. @returns Its last state. */
async function killUntilEnded(given: Given, path: string, client: KilledClient): Promise<string> {
  const { server, mayKill } = given;
  while (true) {
    await server.start(mayKill());
    const state = await stateOf(server.url + path, [...ENDED, ...RESUMABLE], SHUTDOWN_MS);
    note(given, "missing", await client.missing(server.url));
    if (ENDED.includes(state)) return state;
    server.arm(mayKill());
    const working = client.work(server.url);
    await untilKilled(server, async () => {
      if (RESUMABLE.includes(state)) await client.resume(server.url);
      await stateOf(server.url + path, ENDED, PATIENCE_MS);
    });
    server.arm(false);
    // The server that lost the run's process tells so.
    if (server.killed && !server.killed.is_server) {
      const left = await stateOf(server.url + path, [...ENDED, ...RESUMABLE], SHUTDOWN_MS);
      const is_right = left === "completed" || RESUMABLE.includes(left);
      if (!is_right) note(given, "wrong", [`${server.killed.step}: the run is ${left}`]);
    }
    await server.end("SIGKILL");
    await working;
  }
}

/** Resolves when the work is done or a process was killed. @throws An error of the work that is not for a kill. */
async function untilKilled(server: TracedServer, work: () => Promise<void>): Promise<void> {
  let is_over = false;
  const killed = (async () => {
    while (!is_over && !server.killed) await sleep(POLL_MS);
  })();
  const working = work().catch((error) => {
    if (!server.killed) throw error;
  });
  await Promise.race([working, killed]).finally(() => is_over = true);
}

/** Stores and deletes a dataset, deletes a run, and stops the server: each is done once the server has said so. */
async function removeAll(given: Given, path: string): Promise<void> {
  const row = `{"text":"${path}"}\n`;
  const upload = sending("POST", row, "application/x-ndjson");
  const { id } = await insist(given, (url) => api(`${url}/v1/datasets`, upload));
  for (const removed of [`/v1/datasets/${id}`, path]) {
    let asked = 0;
    await insist(given, async (url) => {
      asked++;
      const { status, body } = await fetch(url + removed, { method: "DELETE" });
      await body?.cancel();
      // The one that died may have deleted it.
      if (status !== 204 && !(status === 404 && asked > 1)) throw new Error(`DELETE ${removed}: ${status}`);
    });
    await given.server.start(given.mayKill());
    const { status, body } = await fetch(given.server.url + removed);
    await body?.cancel();
    if (status !== 404) note(given, "wrong", [`GET ${removed} after it was deleted: ${status}`]);
  }
  await checkRuns(given, 1);
  given.server.arm(given.mayKill());
  await given.server.end("SIGTERM");
}

/** Kills `count` times at each step, in as many runs as that takes. A step that comes by chance may be missed. */
async function soakSteps(
  { count, minutes, say }: SoakOptions,
): Promise<Findings & Pick<TracedServer, "late"> & { steps: DurableSteps }> {
  await checkStrace();
  const folder = await Deno.makeTempDir({ prefix: "svc-soak-" }), output = join(folder, "trace");
  const findings: Findings = { runs: 0, told: nothingTold(), different: [], missing: [], wrong: [] };
  const steps = new DurableSteps(join(folder, "data"), count), started = performance.now();
  const mayKill = () => performance.now() - started < minutes * 60_000;
  const { config, run } = await writeInputs(folder, UPDATES);
  const directory = (path: string) => join(folder, "data/runs", path.slice("/v1/runs/".length));
  await new Deno.Command("mkfifo", { args: [output] }).output();
  const server = new TracedServer({ config, output, steps, say }), given = { server, mayKill, findings, say };
  try {
    const expected = await expectedResults(config, run, directory);
    for (let kills = -1, more = MORE_RUNS; mayKill() && more > 0;) {
      const path = await createdRun(given, run);
      const client = new KilledClient(path, { lr: LEARNING_RATE, seed: findings.runs++ });
      const state = await killUntilEnded(given, path, client);
      const ended = { directory: directory(path), updates: UPDATES, state };
      const different = await differentResults(expected, ended);
      note(given, "different", different.map((name) => `${path} ${name}`));
      note(given, "missing", await client.missingEvents(server.url));
      note(given, "wrong", client.wrong);
      addTold(findings.told, client.told);
      await removeAll(given, path);
      if (steps.kills.keys().every((step) => steps.isDone(step))) break;
      const kills_now = steps.kills.values().reduce((sum, n) => sum + n, 0);
      more = kills_now === kills ? more - 1 : MORE_RUNS;
      kills = kills_now;
    }
    return { ...findings, late: server.late, steps };
  } finally {
    await server.end("SIGKILL");
    await Deno.remove(folder, { recursive: true });
  }
}

/** The results of a run that nothing disturbs, on a server that nobody traces. */
async function expectedResults(
  config: string,
  toml: string,
  directory: (path: string) => string,
): Promise<Map<string, string>> {
  const server = await ServerProcess.start({ config });
  try {
    return await resultsOf(directory(await undisturbedRun(server.url, toml)), UPDATES);
  } finally {
    await server.stop();
  }
}

/** D1: what a kill at any call that makes or publishes a file leaves is complete, and the run ends as it would have. */
export const steps: SoakPart = {
  what:
    "kills a server and its runs at each step that makes or publishes a file (needs apt-get install strace)",
  full: { count: 1, minutes: Infinity },
  async run(options) {
    const { different, missing, wrong, steps: { kills }, ...found } = await soakSteps(options);
    const by_step = Object.fromEntries([...kills].sort());
    const hit = [...kills.values()].filter((n) => n > 0).length;
    const failures = [different, missing, wrong].flatMap((failures) => firstOf(failures));
    return { failures, steps_found: kills.size, steps_hit: hit, ...found, by_step };
  },
};
