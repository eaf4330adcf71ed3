/** The process that serves a model: the server's side. */

import type { Clock } from "../../core/clock.ts";
import { deathSignalPrefix } from "../../core/death_signal.ts";
import { DEVICE_OWNER_ENV, deviceOwner } from "../../core/device_lock.ts";
import { ServiceError } from "../../core/errors.ts";
import { RpcClient } from "../../core/rpc.ts";
import type { ModelFacts } from "../../trainer/protocol/protocol.ts";
import type { ChatEvent } from "../chat/chat_request.ts";
import { linePort } from "./line_port.ts";
import type { LoadedBase, ModelMethods, ServedChat } from "./protocol.ts";
import { Watchdog } from "./watchdog.ts";

/** The time for a process to load its model. */
export const LOAD_MS = 600_000;

/** The longest time without a message from a process that answers chats. It sends none while it computes a prompt. */
export const SILENCE_MS = 300_000;

/** The time for a process to free the device and end. */
export const SHUTDOWN_MS = 15_000;

/** How much of the end of its standard error is kept. */
const MAX_STDERR_CHARS = 8192;

/** How a process ended. */
export interface ModelProcessEnd {
  /** Null when a signal killed it. */
  code: number | null;
  /** Why it was killed, and the end of what it wrote to its standard error. */
  reason: string;
}

/** A process with a served model. It is killed when it exceeds a time limit. */
export class ModelProcess {
  /** Resolves when the process is gone. */
  readonly ended: Promise<ModelProcessEnd>;
  readonly #client: RpcClient<ModelMethods>;
  readonly #process: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #clock: Clock;
  readonly #watchdog: Watchdog;
  /** Aborts when the process is gone: ends the wait of {@link shutDown}. */
  readonly #gone = new AbortController();
  #is_shutting_down = false;
  /** The time limit for which it was killed; null when it was not killed, or when the caller killed it. */
  #fault: string | null = null;

  private constructor(process: Deno.ChildProcess, clock: Clock) {
    this.#process = process;
    this.#clock = clock;
    this.#input = process.stdin.getWriter();
    const encoder = new TextEncoder();
    const write = (line: string) => void this.#input.write(encoder.encode(line)).catch(() => {});
    const port = linePort(process.stdout, write);
    this.#client = new RpcClient(port);
    this.#watchdog = new Watchdog({
      clock,
      isAsked: () => this.#client.waiting > 0,
      silent: (seconds) => this.#end(`it said nothing for ${seconds} seconds`),
    });
    port.addEventListener("message", () => this.#watchdog.heard());
    this.ended = this.#run(port.ended);
  }

  /**
   * Starts the process. When the server dies, the system kills the process; where the system cannot, the process ends
   * when it reads the end of its input.
   *
   * @throws {ServiceError} `internal` when the program cannot be started.
   */
  static async start(argv: readonly string[], clock: Clock): Promise<ModelProcess> {
    const [program, ...args] = [...await deathSignalPrefix(), ...argv];
    try {
      const pipes = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;
      const options = { args, ...pipes, detached: true, env: { [DEVICE_OWNER_ENV]: deviceOwner() } };
      return new ModelProcess(new Deno.Command(program!, options).spawn(), clock);
    } catch (cause) {
      const message = `Cannot start the process that serves models: ${argv[0]} does not start`;
      throw new ServiceError("internal", message, {}, { cause });
    }
  }

  /** Loads the base. The process is killed after {@link LOAD_MS}. */
  async load(base: LoadedBase): Promise<ModelFacts> {
    this.#watchdog.limit(LOAD_MS);
    const facts = await this.#client.call("load", base);
    this.#watchdog.limit(SILENCE_MS);
    return facts;
  }

  /** Answers a chat. A process that sends nothing for {@link SILENCE_MS} while a chat is open is killed. */
  async *chat(chat: ServedChat, signal: AbortSignal): AsyncGenerator<ChatEvent, void> {
    if (this.#client.waiting === 0) this.#watchdog.heard();
    yield* this.#client.stream("chat", chat, signal);
  }

  /** Closes its pipe, so that it destroys the device and ends. It is killed after {@link SHUTDOWN_MS}. */
  shutDown(): void {
    if (this.#is_shutting_down) return;
    this.#is_shutting_down = true;
    this.#input.close().catch(() => {});
    this.#clock.sleep(SHUTDOWN_MS, this.#gone.signal).then(() => this.#end("it does not end"), () => {});
  }

  /** Ends it at once. */
  kill(): void {
    try {
      Deno.kill(-this.#process.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }

  #end(fault: string): void {
    this.#fault ??= fault;
    this.kill();
  }

  async #run(silent: Promise<void>): Promise<ModelProcessEnd> {
    const stderr = lastText(this.#process.stderr);
    await silent;
    const why = this.#fault === null ? "has ended" : `was ended: ${this.#fault}`;
    this.#client.fail(
      new ServiceError("internal", `Cannot answer: the process that serves the model ${why}`),
    );
    this.shutDown();
    const { code, signal } = await this.#process.status;
    this.kill();
    this.#watchdog.close();
    this.#gone.abort();
    const said = (await stderr).trim(), reason = [this.#fault ?? "", said].filter((text) => text !== "");
    return { code: signal === null ? code : null, reason: reason.join("; ") };
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
