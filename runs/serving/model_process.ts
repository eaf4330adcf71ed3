/** The process that serves a model: the end that the server holds. */

import { deathSignalPrefix } from "../../core/death_signal.ts";
import { ServiceError } from "../../core/errors.ts";
import { RpcClient } from "../../core/rpc.ts";
import { linePort } from "./line_port.ts";
import type { ModelMethods } from "./protocol.ts";

/** The kept end of what the process writes to its standard error. */
const MAX_STDERR_CHARS = 8192;

/** How a process ended. */
export interface ModelProcessEnd {
  /** Null when a signal killed it. */
  code: number | null;
  stderr: string;
}

export class ModelProcess {
  readonly client: RpcClient<ModelMethods>;
  /** Resolves when the process is gone. */
  readonly ended: Promise<ModelProcessEnd>;
  readonly #process: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;

  private constructor(process: Deno.ChildProcess) {
    this.#process = process;
    this.#input = process.stdin.getWriter();
    const encoder = new TextEncoder();
    const write = (line: string) => void this.#input.write(encoder.encode(line)).catch(() => {});
    const port = linePort(process.stdout, write);
    this.client = new RpcClient(port);
    this.ended = this.#run(port.ended);
  }

  /**
   * Starts the process. It dies with this one where the system can do that; elsewhere it then leaves by itself.
   *
   * @throws {ServiceError} `internal` when the program cannot be started.
   */
  static async start(argv: readonly string[]): Promise<ModelProcess> {
    const [program, ...args] = [...await deathSignalPrefix(), ...argv];
    try {
      const options = { args, stdin: "piped", stdout: "piped", stderr: "piped", detached: true } as const;
      return new ModelProcess(new Deno.Command(program!, options).spawn());
    } catch (cause) {
      const message = `Cannot start the process that serves models: ${argv[0]} does not start`;
      throw new ServiceError("internal", message, {}, { cause });
    }
  }

  /** Closes its pipe: it destroys the device and ends. */
  leave(): void {
    this.#input.close().catch(() => {});
  }

  /** Ends it at once. */
  kill(): void {
    try {
      Deno.kill(-this.#process.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }

  async #run(silent: Promise<void>): Promise<ModelProcessEnd> {
    const stderr = lastText(this.#process.stderr);
    await silent;
    this.client.fail(
      new ServiceError("internal", "Cannot answer: the process that serves the model has ended"),
    );
    this.leave();
    const { code, signal } = await this.#process.status;
    this.kill();
    return { code: signal === null ? code : null, stderr: await stderr };
  }
}

async function lastText(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text = (text + decoder.decode(chunk, { stream: true })).slice(-MAX_STDERR_CHARS);
  }
  return text;
}
