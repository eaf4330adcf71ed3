/** A server in a process of its own, as an operator starts it, and a reader of its event streams. */

import { fileURLToPath } from "node:url";

const MAIN = fileURLToPath(new URL("../main.ts", import.meta.url));

/** A server's process. */
export interface RealServer {
  url: string;
  pid: number;
  /** Sends the signal, and returns when the process has ended. */
  kill(signal: Deno.Signal): Promise<void>;
}

/** Starts `svc-server <config>`. @throws {Error} With what it wrote, when it ends before it listens. */
export async function startServer(config: string): Promise<RealServer> {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", MAIN, config],
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
  let text = "", url = "";
  while (url === "") {
    const { value, done } = await reader.read();
    if (done) throw new Error(`The server ended: ${text}`);
    text += value;
    url = /listens at (http:\S+)/.exec(text)?.[1] ?? "";
  }
  // A full pipe would hold up the server.
  const rest = (async () => {
    while (!(await reader.read()).done);
  })();
  return {
    url,
    pid: child.pid,
    async kill(signal) {
      child.kill(signal);
      await child.status;
      await rest;
    },
  };
}

/** An event of a stream. */
export interface ShownEvent {
  id: number;
  kind: string;
  data: Record<string, unknown>;
}

/** The events of a stream after an id. It ends with the stream, and fails when the connection breaks. */
export async function* shownEvents(url: string, since: number): AsyncGenerator<ShownEvent> {
  const response = await fetch(`${url}?since=${since}`);
  let text = "";
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
      const [, id, kind, data] = /^id: (\d+)\nevent: (\w+)\ndata: (.*)$/.exec(text.slice(0, end)) ?? [];
      text = text.slice(end + 2);
      if (id !== undefined) yield { id: Number(id), kind: kind!, data: JSON.parse(data!) };
    }
  }
}
