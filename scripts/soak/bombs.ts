/** Sends bodies that are expensive to read to a real server, and watches its thread. */

import { type Bomb, jsonBombs, tomlBombs } from "../../tests/bombs.ts";
import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { firstOf, percentile, rounded, type SoakPart } from "./part.ts";

/**
 * The longest that the server's thread may work for a request, and without a turn of its loop. Both are processor time,
 * which leaves out the turns of other programs, and the middle one of all rounds, because those make it longer, too.
 */
const LIMIT_MS = { "application/json": 50, "application/toml": 1000 }, BUSY_MS = 100;

/** The bombs that a result tells of. */
const SHOWN = 8;

const MEASURES = [
  // From the first byte of the request to the last of the answer, by the clock.
  "answer_ms",
  // The processor time of the server's thread meanwhile.
  "thread_ms",
  // The longest time between two turns of the server's loop, by the clock and of the processor.
  "blocked_ms",
  "busy_ms",
] as const;
type Took = Record<typeof MEASURES[number], number>;

/** The milliseconds of processor time that the thread of a process's loop has had. */
async function threadMs(pid: number): Promise<number> {
  const [ns = ""] = (await Deno.readTextFile(`/proc/${pid}/task/${pid}/schedstat`)).split(" ");
  return Number(ns) / 1e6;
}

async function send(server: ServerProcess, { body, type }: Bomb): Promise<{ status: number; took: Took }> {
  const before = server.lines.length, thread_before = await threadMs(server.child.pid);
  const started = performance.now();
  const init = { method: "POST", body, headers: { "content-type": type } };
  const response = await fetch(`${server.url}/v1/plan`, init);
  await response.bytes();
  const answer_ms = performance.now() - started, thread_ms = await threadMs(server.child.pid) - thread_before;
  // The line of the request comes after the lines of the time in which it was read.
  await (await fetch(`${server.url}/healthz`)).bytes();
  await server.line((line) => line.path === "/healthz" && server.lines.indexOf(line) >= before);
  const blocked = server.lines.slice(before).filter(({ message }) => message === "blocked");
  const most = (name: string) => Math.max(0, ...blocked.map((line) => Number(line[name])));
  const took = { answer_ms, thread_ms, blocked_ms: most("blocked_ms"), busy_ms: most("busy_ms") };
  return { status: response.status, took };
}

/** A6 and A7: no body holds up the others. */
export const bombs: SoakPart = {
  what: "sends deep, long and ambiguous JSON and TOML, and watches the server's thread",
  full: { count: 20, minutes: Infinity },
  async run({ count, say }) {
    const failures: string[] = [], rounds: Record<string, Took[]> = {};
    await withFolder(async (folder) => {
      const config = await serverConfig(folder, `data_dir = ${JSON.stringify(`${folder}/data`)}\n`);
      const server = await ServerProcess.start({ config, program: "scripts/soak/watched_server.ts" });
      try {
        for (let i = 0; i < count; i++) {
          for (const bomb of [...jsonBombs(), ...tomlBombs()]) {
            const { status, took } = await send(server, bomb);
            if (status !== bomb.status) failures.push(`${bomb.name}: ${status}`);
            (rounds[bomb.name] ??= []).push(took);
          }
          say(`${i + 1} of ${count} rounds`);
        }
      } finally {
        await server.stop();
      }
    });
    const bombs: Record<string, Record<string, { p50: number; max: number }>> = {};
    for (const { name, type } of [...jsonBombs(), ...tomlBombs()]) {
      const took = bombs[name] = Object.fromEntries(MEASURES.map((measure) => {
        const values = rounds[name]!.map((round) => round[measure]);
        return [measure, { p50: rounded(percentile(values, 0.5)), max: rounded(percentile(values, 1)) }];
      }));
      const thread_ms = took.thread_ms!.p50, busy_ms = took.busy_ms!.p50;
      if (thread_ms > LIMIT_MS[type]) failures.push(`${name}: the thread worked for ${thread_ms} ms`);
      if (busy_ms > BUSY_MS) failures.push(`${name}: the thread was busy for ${busy_ms} ms at a time`);
    }
    const slowest = Object.entries(bombs).sort(([, a], [, b]) => b.thread_ms!.max - a.thread_ms!.max);
    return {
      failures: firstOf(failures),
      bombs: slowest.length,
      slowest: Object.fromEntries(slowest.slice(0, SHOWN)),
    };
  },
};
