/** Sends bodies that are expensive to read to a real server, and watches its thread. */

import { type Bomb, jsonBombs, tomlBombs } from "../../tests/bombs.ts";
import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { firstOf, rounded, type SoakPart } from "./part.ts";

/**
 * The longest that the server's thread may work for a request, and without a turn of its loop. Both are processor time:
 * it is the time on an idle machine, and on a busy one it leaves out what other programs took.
 */
const LIMIT_MS = { "application/json": 50, "application/toml": 1000 }, BUSY_MS = 100;

/** What a request took, by the clock, and of the processor for the server's thread. */
interface Took {
  /** From the first byte of the request to the last of the answer. */
  answer_ms: number;
  thread_ms: number;
  /** The longest time between two turns of the server's loop. */
  blocked_ms: number;
  busy_ms: number;
}

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
    const failures: string[] = [], worst: Record<string, Took> = {};
    await withFolder(async (folder) => {
      const config = await serverConfig(folder, `data_dir = ${JSON.stringify(`${folder}/data`)}\n`);
      const server = await ServerProcess.start({ config, program: "scripts/soak/watched_server.ts" });
      try {
        for (let i = 0; i < count; i++) {
          for (const bomb of [...jsonBombs(), ...tomlBombs()]) {
            const { status, took } = await send(server, bomb);
            if (status !== bomb.status) failures.push(`${bomb.name}: ${status}`);
            const before = worst[bomb.name] ??= { answer_ms: 0, thread_ms: 0, blocked_ms: 0, busy_ms: 0 };
            for (const key of ["answer_ms", "thread_ms", "blocked_ms", "busy_ms"] as const) {
              before[key] = rounded(Math.max(before[key], took[key]));
            }
          }
          say(`${i + 1} of ${count} rounds`);
        }
      } finally {
        await server.stop();
      }
    });
    for (const { name, type } of [...jsonBombs(), ...tomlBombs()]) {
      const { thread_ms, busy_ms } = worst[name]!;
      if (thread_ms > LIMIT_MS[type]) failures.push(`${name}: the thread worked for ${thread_ms} ms`);
      if (busy_ms > BUSY_MS) failures.push(`${name}: the thread was busy for ${busy_ms} ms at a time`);
    }
    return { failures: firstOf(failures), worst };
  },
};
