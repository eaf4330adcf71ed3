/** Holds a thousand connections of a server with slowhttptest, in each of its modes, and asks for its health meanwhile. */

import { withFolder } from "../../tests/folder.ts";
import { serverConfig, ServerProcess } from "../../tests/server_process.ts";
import { percentile, rounded, sleep, type SoakPart } from "./part.ts";

const PROBE_MS = 50;
/** What a slow client may hold its connection for, and the 99th percentile of the others' answers. */
const CLOSED_SECONDS = 30, LIMIT_MS = 200;
const TOKEN = "soak";
const WATCH_MS = 500;
/** Connections of the probe itself. */
const PROBES = 2;
/** The share of the connections that must be held at once: with fewer nothing is shown. */
const HELD = 0.9;
/** How long a mode is watched: a client that is not cut is still there then. */
const WATCHED_SECONDS = 60;

/** The modes with their arguments: slow headers, slow bodies, slow readers. */
const MODES: Readonly<Record<string, readonly string[]>> = {
  headers: ["-H", "-i", "10", "-x", "24"],
  bodies: ["-B", "-i", "10", "-x", "10", "-s", "8192", "-t", "POST"],
  // Small windows, read a few bytes at a time; each connection asks several times, so that the buffers fill up.
  readers: ["-X", "-w", "1", "-y", "2", "-n", "60", "-z", "1", "-k", "3"],
};

interface ModeResult {
  health_ms: { p50: number; p99: number; max: number };
  probes: number;
  /** Probes without an answer, or with another one. */
  wrong: number;
  /** When the server had closed the last connection. */
  closed_after_seconds: number;
  most_connected: number;
}

/** Asks for the health until the signal aborts, each time on a connection of its own. */
async function probe(url: string, signal: AbortSignal): Promise<{ took: number[]; wrong: number }> {
  let wrong = 0;
  const took: number[] = [], headers = { authorization: `Bearer ${TOKEN}`, connection: "close" };
  while (!signal.aborted) {
    const started = performance.now();
    const is_ok = await fetch(`${url}/v1/health`, { headers })
      .then(async (response) => response.ok && (await response.json()).status === "ok").catch(() => false);
    took.push(performance.now() - started);
    if (!is_ok) wrong++;
    await sleep(PROBE_MS);
  }
  return { took, wrong };
}

/** The server's sockets. */
function sockets(pid: number): number {
  return [...Deno.readDirSync(`/proc/${pid}/fd`)].filter(({ name }) => {
    try {
      return Deno.readLinkSync(`/proc/${pid}/fd/${name}`).startsWith("socket:");
    } catch {
      return false;
    }
  }).length;
}

/** Counts the connections that are held, until the signal aborts. */
async function watch(pid: number, signal: AbortSignal): Promise<{ seconds: number; held: number }[]> {
  const before = sockets(pid), started = performance.now(), seen: { seconds: number; held: number }[] = [];
  while (!signal.aborted) {
    const held = sockets(pid) - before - PROBES;
    seen.push({ seconds: (performance.now() - started) / 1000, held: Math.max(0, held) });
    await sleep(WATCH_MS);
  }
  return seen;
}

async function runMode(
  server: ServerProcess,
  { name, count }: { name: string; count: number },
): Promise<ModeResult> {
  const url = `http://127.0.0.1:${new URL(server.url).port}`, { pid } = server.child;
  const target = name === "bodies" ? `${url}/v1/plan` : `${url}/v1/openapi.json`;
  const args = ["-c", String(count), "-r", "200", "-l", String(WATCHED_SECONDS), "-p", "5", "-u", target];
  // It sets no header but a cookie, after which another one fits.
  const header = ["-j", `soak=1\r\nAuthorization: Bearer ${TOKEN}`, "-f", "application/json"];
  const stop = new AbortController(), work = Promise.all([probe(url, stop.signal), watch(pid, stop.signal)]);
  const { code } = await new Deno.Command("slowhttptest", {
    args: [...MODES[name]!, ...args, ...header],
    ...{ stdout: "null", stderr: "null" },
  }).output();
  // Connections that it leaves behind are the server's to close.
  await sleep(2 * WATCH_MS);
  stop.abort();
  const [{ took, wrong }, seen] = await work, most_connected = Math.max(...seen.map(({ held }) => held));
  if (most_connected === 0) throw new Error(`slowhttptest ended with ${code} and no connection`);
  const [p50, p99, max] = [0.5, 0.99, 1].map((share) => rounded(percentile(took, share)));
  return {
    health_ms: { p50: p50!, p99: p99!, max: max! },
    probes: took.length,
    wrong,
    closed_after_seconds: rounded(seen.findLast(({ held }) => held > 0)!.seconds),
    most_connected,
  };
}

/** A4: slow clients are cut, and the others answered meanwhile. */
export const slow: SoakPart = {
  what: "holds 1,000 connections with slowhttptest, beyond loopback (needs apt-get install slowhttptest)",
  full: { count: 1000, minutes: Infinity },
  async run({ count, say }) {
    const failures: string[] = [], modes: Record<string, ModeResult> = {};
    await withFolder(async (folder) => {
      const keys = `bind = "0.0.0.0:0"\nauth_token = "${TOKEN}"\ndata_dir = ${
        JSON.stringify(`${folder}/data`)
      }\n`;
      const server = await ServerProcess.start({ config: await serverConfig(folder, keys) });
      try {
        for (const name of Object.keys(MODES)) {
          const result = modes[name] = await runMode(server, { name, count });
          say(`${name}: ${JSON.stringify(result)}`);
          const { closed_after_seconds: seconds, health_ms: { p99 } } = result;
          if (result.wrong > 0) failures.push(`${name}: ${result.wrong} answers about the health are wrong`);
          if (result.most_connected < HELD * count) {
            failures.push(`${name}: at most ${result.most_connected} connections were held at once`);
          }
          if (p99 > LIMIT_MS) failures.push(`${name}: the health is answered in ${p99} ms (p99)`);
          // The clients come over several seconds.
          const most = CLOSED_SECONDS + count / 200;
          if (seconds > most) failures.push(`${name}: the last connection is closed after ${seconds} s`);
        }
      } finally {
        await server.stop();
      }
    });
    return { failures, modes };
  },
};
