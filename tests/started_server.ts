/** The real server for tests. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** A server of this program, as a process. */
export interface StartedServer {
  url: string;
  kill(signal: Deno.Signal): Promise<void>;
}

/** Starts the program with a configuration file; resolves when it listens. */
export async function startServer(config: string): Promise<StartedServer> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", `${ROOT}main.ts`, config],
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const lines = child.stderr.pipeThrough(new TextDecoderStream());
  let text = "", url = "";
  const reader = lines.getReader();
  while (url === "") {
    const { value, done } = await reader.read();
    assert.ok(!done, `the server ended: ${text}`);
    text += value;
    url = /listens at (http:\S+)/.exec(text)?.[1] ?? "";
  }
  const rest = (async () => {
    while (!(await reader.read()).done);
  })();
  return {
    url,
    async kill(signal) {
      child.kill(signal);
      await child.status;
      await rest;
    },
  };
}
