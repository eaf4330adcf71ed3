/** Sends bodies that are expensive to read to a real server, and watches its thread. */

import { type Bomb, jsonBombs, tomlBombs } from "../../tests/bombs.ts";
import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { firstOf, rounded, type SoakPart } from "./part.ts";

/** The longest time of a request, and the longest that the server's thread may be busy. */
const LIMIT_MS = { "application/json": 50, "application/toml": 1000 }, BLOCKED_MS = 100;

interface Worst {
  /** From the first byte of the request to the last of the answer. */
  answer_ms: number;
  blocked_ms: number;
}

async function send(server: ServerProcess, { body, type }: Bomb): Promise<{ status: number } & Worst> {
  const before = server.lines.length, started = performance.now();
  const init = { method: "POST", body, headers: { "content-type": type } };
  const response = await fetch(`${server.url}/v1/plan`, init);
  await response.bytes();
  const answer_ms = performance.now() - started;
  // The line of the request comes after the lines of the time in which it was read.
  await (await fetch(`${server.url}/healthz`)).bytes();
  await server.line((line) => line.path === "/healthz" && server.lines.indexOf(line) >= before);
  const blocked = server.lines.slice(before).filter(({ message }) => message === "blocked");
  return {
    status: response.status,
    answer_ms,
    blocked_ms: Math.max(0, ...blocked.map(({ blocked_ms }) => Number(blocked_ms))),
  };
}

/** A6 and A7: no body holds up the others. */
export const bombs: SoakPart = {
  what: "sends deep, long and ambiguous JSON and TOML, and watches the server's thread",
  full: { count: 20, minutes: Infinity },
  async run({ count, say }) {
    const failures: string[] = [], worst: Record<string, Worst> = {};
    await withFolder(async (folder) => {
      const config = await serverConfig(folder, `data_dir = ${JSON.stringify(`${folder}/data`)}\n`);
      const server = await ServerProcess.start({ config, program: "scripts/soak/watched_server.ts" });
      try {
        for (let i = 0; i < count; i++) {
          for (const bomb of [...jsonBombs(), ...tomlBombs()]) {
            const { status, answer_ms, blocked_ms } = await send(server, bomb);
            if (status !== bomb.status) failures.push(`${bomb.name}: ${status}`);
            const before = worst[bomb.name] ?? { answer_ms: 0, blocked_ms: 0 };
            worst[bomb.name] = {
              answer_ms: rounded(Math.max(before.answer_ms, answer_ms)),
              blocked_ms: rounded(Math.max(before.blocked_ms, blocked_ms)),
            };
          }
          say(`${i + 1} of ${count} rounds`);
        }
      } finally {
        await server.stop();
      }
    });
    for (const { name, type } of [...jsonBombs(), ...tomlBombs()]) {
      const { answer_ms, blocked_ms } = worst[name]!;
      if (answer_ms > LIMIT_MS[type]) failures.push(`${name}: answered after ${answer_ms} ms`);
      if (blocked_ms > BLOCKED_MS) failures.push(`${name}: the thread was busy for ${blocked_ms} ms`);
    }
    return { failures: firstOf(failures), worst };
  },
};
