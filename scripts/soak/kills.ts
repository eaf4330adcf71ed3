/**
 * Kills a real server with SIGKILL at random moments of a real run, starts it again and resumes the run, until the run
 * has ended; then compares it with one that nothing disturbed.
 */

import { join } from "node:path";
import { Rng, rngKey } from "../../core/random.ts";
import { ServerProcess } from "../../tests/server_process.ts";
import { KilledClient, type Told } from "./killed_client.ts";
import {
  addTold,
  createRun,
  differentResults,
  ENDED,
  LEARNING_RATE,
  nothingTold,
  resultsOf,
  SHUTDOWN_MS,
  stateOf,
  undisturbedRun,
  writeInputs,
} from "./killed_run.ts";
import { firstOf, sleep, type SoakOptions, type SoakPart } from "./part.ts";

const UPDATES = 4;

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
    ...{ kills: 0, found: {}, runs: 0, told: nothingTold() },
    ...{ different: [], missing: [], wrong: [] },
  };
  const { config, run } = await writeInputs(folder, UPDATES);
  const directory = (path: string) => join(folder, "data/runs", path.slice("/v1/runs/".length));
  try {
    await using server = await KilledServer.start(config);
    const started = performance.now(), undisturbed = await undisturbedRun(server.url, run);
    // A server lives at most as long as a run takes: some die while a run starts, some while it ends.
    const life_ms = performance.now() - started, life = () => random.uniform() * life_ms;
    say(`a run takes ${Math.round(life_ms)} ms`);
    const expected = await resultsOf(directory(undisturbed), UPDATES);
    while (result.kills < kills && performance.now() - started < minutes * 60_000) {
      const path = await createRun(server.url, run);
      const client = new KilledClient(path, { lr: LEARNING_RATE, seed: seed + result.runs });
      const state = await killUntilEnded(server, {
        ...{ path, client, life },
        say(state, missing) {
          result.missing.push(...missing);
          result.found[state] = (result.found[state] ?? 0) + 1;
          say(`kill ${++result.kills}: ${state} ${missing}`);
        },
      });
      const ended = { directory: directory(path), updates: UPDATES, state };
      const different = await differentResults(expected, ended);
      result.different.push(...different.map((name) => `${path} ${name}`));
      result.runs++;
      result.missing.push(...await client.missingEvents(server.url));
      result.wrong.push(...client.wrong);
      addTold(result.told, client.told);
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
