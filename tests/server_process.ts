/** A server as a process of its own, for tests. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

interface ServerProcessOptions {
  /** Its configuration: a file in a folder that keeps its data. */
  config: string;
  env?: Record<string, string>;
  /** Relative to the root; absent: the real server. */
  program?: string;
  /** In front of its command, such as a tracer that starts it in the same process. */
  prefix?: readonly string[];
}

/** A started server. Its log is read until `stopReading`. */
export class ServerProcess {
  readonly url: string;
  readonly child: Deno.ChildProcess;
  readonly lines: Record<string, unknown>[] = [];
  readonly #reader: ReadableStreamDefaultReader<string>;
  #rest = "";
  #is_reading = true;
  #reading: Promise<void> | null = null;

  private constructor(child: Deno.ChildProcess, reader: ReadableStreamDefaultReader<string>, url: string) {
    [this.child, this.#reader, this.url] = [child, reader, url];
  }

  /** Starts a server and waits until it listens. */
  static async start(
    { config, env = {}, program = "main.ts", prefix = [] }: ServerProcessOptions,
  ): Promise<ServerProcess> {
    const server_args = ["run", "-A", "--no-check", `${ROOT}${program}`, config];
    const [command, ...args] = [...prefix, Deno.execPath(), ...server_args] as [string, ...string[]];
    const child = new Deno.Command(command, { args, env, stdout: "null", stderr: "piped" }).spawn();
    const reader = child.stderr.pipeThrough(new TextDecoderStream()).getReader();
    let text = "", url: string | undefined;
    while (!(url = /listens at (http:\S+)[^\n]*\n/.exec(text)?.[1])) {
      const { value, done } = await reader.read();
      assert.ok(!done, `the server ended: ${text}`);
      text += value;
    }
    const server = new ServerProcess(child, reader, url);
    server.#take(text);
    server.keepReading();
    return server;
  }

  /** Reads the log on, from where it was left. */
  keepReading(): void {
    this.#is_reading = true;
    this.#reading = (async () => {
      while (this.#is_reading) {
        const { value, done } = await this.#reader.read();
        if (done) return;
        this.#take(value);
      }
    })();
  }

  /** Reads at most one piece more. */
  stopReading(): void {
    this.#is_reading = false;
  }

  /** Closes the pipe of the log. */
  async closeLog(): Promise<void> {
    this.stopReading();
    await this.#reader.cancel();
  }

  /** Resolves when the log has a line for which `is` holds. */
  async line(is: (line: Record<string, unknown>) => boolean): Promise<Record<string, unknown>> {
    for (let found;;) {
      if ((found = this.lines.find(is))) return found;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Sends a signal, waits for the end of the process and of its log, and returns the exit status. */
  async stop(signal: Deno.Signal = "SIGTERM"): Promise<number> {
    this.child.kill(signal);
    return await this.ended();
  }

  async ended(): Promise<number> {
    const { code } = await this.child.status;
    await this.#reading;
    return code;
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop()!;
    this.lines.push(...lines.map((line) => JSON.parse(line)));
  }
}

/** Writes a configuration with a free port into a folder and returns its path. */
export async function serverConfig(folder: string, more = ""): Promise<string> {
  const path = `${folder}/server.toml`, bind = /^bind = /m.test(more) ? "" : `bind = "127.0.0.1:0"\n`;
  await Deno.writeTextFile(path, bind + more);
  return path;
}
