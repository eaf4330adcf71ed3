/** The process of a run, and the server's end of its control pipe. */

import { AsyncQueue, streamed } from "../../core/async_queue.ts";
import { deathSignalPrefix } from "../../core/death_signal.ts";
import { DEVICE_OWNER_ENV, deviceOwner } from "../../core/device_lock.ts";
import { errorFromRecord, type ErrorRecord, ServiceError } from "../../core/errors.ts";
import type { ChatEvent } from "../chat/chat_request.ts";
import type { Activity } from "../record/activity.ts";
import { PendingRequests } from "../../core/pending_requests.ts";
import {
  BEGIN,
  type ChatCommand,
  type ControlMessage,
  type EvaluateCommand,
  type GenerateCommand,
  MAX_COMMAND_BYTES,
} from "../process/control.ts";

/** How many of the last bytes of standard error are kept: the message of a crash. */
const KEPT_ERROR_BYTES = 1 << 13;

/** How long a run's process may take to accept or refuse a command. */
const ANSWER_MS = 10_000;

/** How a run's process ended. */
export interface ChildEnd {
  /** Null when a signal killed it. */
  code: number | null;
  /** Why the run could not start; null when it did start, or when the process died without a message. */
  fatal: ErrorRecord | null;
  /** The end of standard error. */
  stderr: string;
}

type Takes = "boundary" | "now";
type Id = string | number | null;

/** A request to evaluate or to generate. */
export type LiveRequestBody = Omit<EvaluateCommand, "id"> | Omit<GenerateCommand, "id">;

/** A chat with the run's policy, a checkpoint or its base. */
type ChatBody = Omit<ChatCommand, "id" | "command">;

interface Waiting {
  accept(takes_effect: Takes): void;
  /** Receives the result of a request; null for a command, which is only accepted or refused. */
  answer: ((result: unknown) => void) | null;
  /** Receives the items that a request sends before its result, such as tokens of a chat. */
  item?: (item: unknown) => void;
  fail(error: unknown): void;
}

export class RunChild {
  /** The numbers of events that are on disk; ends with the process. */
  readonly durable = new AsyncQueue<number>();
  readonly ended: Promise<ChildEnd>;
  readonly #process: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #pending = new PendingRequests<Waiting>();
  #fatal: ErrorRecord | null = null;
  #has_begun = false;
  #activity: Activity | null = null;

  private constructor(process: Deno.ChildProcess) {
    this.#process = process;
    this.#input = process.stdin.getWriter();
    this.ended = this.#run();
    // The caller handles a rejection. Without this line, one that comes earlier would end the server.
    this.ended.catch(() => {});
  }

  /**
   * Starts a run's process. When the server dies, the system kills the process; where the system cannot, the process ends
   * when it reads the end of its input.
   *
   * @param argv The program and its arguments.
   * @throws {ServiceError} `internal` when the program cannot be started.
   */
  static async start(argv: readonly string[]): Promise<RunChild> {
    const [program, ...args] = [...await deathSignalPrefix(), ...argv];
    try {
      const pipes = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;
      const options = { args, ...pipes, detached: true, env: { [DEVICE_OWNER_ENV]: deviceOwner() } };
      return new RunChild(new Deno.Command(program!, options).spawn());
    } catch (cause) {
      throw new ServiceError("internal", `Cannot start the run's process: ${argv[0]} does not start`, {}, {
        cause,
      });
    }
  }

  get pid(): number {
    return this.#process.pid;
  }

  /**
   * Sends a command.
   *
   * @returns When it takes effect.
   * @throws {ServiceError} The run's refusal, or `conflict` when it does not answer within {@link ANSWER_MS}.
   */
  async command(command: string, more: Record<string, unknown> = {}): Promise<Takes> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    try {
      return await new Promise<Takes>((accept, fail) => {
        timer = setTimeout(() => fail(silent(command)), ANSWER_MS);
        this.#send({ command, ...more }, { accept, answer: null, fail });
      });
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Asks the process to evaluate, to generate or to calibrate. When the signal aborts, a `drop` cancels the request.
   *
   * @throws {ServiceError} Its refusal, why it has no answer, or the signal's reason.
   */
  async ask(live_request: LiveRequestBody | { command: "calibrate" }, signal: AbortSignal): Promise<unknown> {
    return await this.#ask({ ...live_request }, signal, () => {});
  }

  /** Chats with the run. Ending the iteration early cancels the chat. */
  async *chat(chat: ChatBody, signal: AbortSignal): AsyncGenerator<ChatEvent, void> {
    yield* streamed<ChatEvent, unknown>(
      (push, either) => this.#ask({ command: "chat", ...chat }, either, (item) => push(item as ChatEvent)),
      signal,
    );
  }

  async #ask(
    live_request: Record<string, unknown>,
    signal: AbortSignal,
    item: (item: unknown) => void,
  ): Promise<unknown> {
    signal.throwIfAborted();
    const { promise, resolve: answer, reject: fail } = Promise.withResolvers<unknown>();
    const request = this.#send(live_request, { accept: () => {}, answer, item, fail });
    const drop = () => {
      this.#pending.take(request)?.fail(signal.reason);
      this.#send({ command: "drop", request }, { accept: () => {}, answer: null, fail: () => {} });
    };
    signal.addEventListener("abort", drop, { once: true });
    return await promise.finally(() => signal.removeEventListener("abort", drop));
  }

  /** Whether it was told to begin. What it is asked from then on it may refuse, because it ends. */
  get has_begun(): boolean {
    return this.#has_begun;
  }

  /** What it does between two events; null until it says so. */
  get activity(): Activity | null {
    return this.#activity;
  }

  /** Ends the process and the processes of its group at once. */
  kill(): void {
    try {
      Deno.kill(-this.#process.pid, "SIGKILL");
    } catch {
      // It is gone already.
    }
  }

  /** Closes the control pipe. The run discards its update, writes a checkpoint, and ends as `interrupted`. */
  shutDown(): void {
    this.#input.close().catch(() => {});
  }

  #send(message: Record<string, unknown>, waiting: Waiting): number {
    const id = this.#pending.add(waiting);
    this.#write({ id, ...message }).catch((error) =>
      this.#pending.take(id)?.fail(error instanceof ServiceError ? error : gone())
    );
    return id;
  }

  async #write(message: Record<string, unknown>): Promise<void> {
    const line = new TextEncoder().encode(JSON.stringify(message) + "\n");
    // A longer line would end the run.
    if (line.length > MAX_COMMAND_BYTES) throw tooLong(line.length);
    await this.#input.write(line);
  }

  async #run(): Promise<ChildEnd> {
    const stderr = tailOf(this.#process.stderr);
    // A program that the process started may hold its pipes open: it dies with the group.
    const status = this.#process.status.finally(() => this.kill());
    try {
      for await (const line of linesOf(this.#process.stdout)) this.#receive(line);
    } finally {
      this.durable.close();
      for (const waiting of this.#pending.takeAll()) waiting.fail(gone());
      this.#input.close().catch(() => {});
    }
    const { code, signal } = await status;
    return { code: signal === null ? code : null, fatal: this.#fatal, stderr: await stderr };
  }

  #receive(line: string): void {
    let message: ControlMessage;
    try {
      message = JSON.parse(line);
    } catch {
      return;
    }
    // A library may have written to standard output too.
    if (typeof message !== "object" || message === null) return;
    if ("durable_seq" in message) this.durable.push(message.durable_seq);
    else if ("activity" in message) this.#activity = message.activity;
    // Commands that were accepted before are in the pipe already, so the process reads them before BEGIN. A process that
    // is gone needs no answer.
    else if ("ready" in message) {
      this.#has_begun = true;
      this.#write(BEGIN).catch(() => {});
    } else if ("fatal" in message) this.#fatal = message.fatal;
    else this.#answer(message.id, message);
  }

  #answer(
    id: Id,
    message: Extract<ControlMessage, { id: Id }>,
  ): void {
    const waiting = this.#pending.get(id);
    if (!waiting) return;
    if ("item" in message) return waiting.item?.(message.item);
    const is_accepted = "accepted" in message && message.accepted;
    // An accepted request still waits for its result.
    if (!is_accepted || !waiting.answer) this.#pending.take(id);
    if (is_accepted) waiting.accept(message.takes_effect);
    else if ("error" in message) waiting.fail(errorFromRecord(message.error));
    else if ("result" in message) waiting.answer?.(message.result);
  }
}

function silent(command: string): ServiceError {
  return new ServiceError(
    "conflict",
    `Cannot ${command} the run: its process does not answer; cancel it "now"`,
  );
}

function tooLong(bytes: number): ServiceError {
  return new ServiceError(
    "config_invalid",
    `Cannot ask the run: the messages and tools take ${bytes} bytes, and at most ${MAX_COMMAND_BYTES} are sent`,
    { field: "messages" },
  );
}

/** Whether a process refused a request because it is ending. The state after its end then decides. */
export function isEnding(error: unknown): boolean {
  return error instanceof ServiceError && error.details.is_ending === true;
}

function gone(): ServiceError {
  return new ServiceError("conflict", "Cannot reach the run: its process has ended", { is_ending: true });
}

/** The lines of an output. Those that are not JSON are skipped by the caller. */
async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const piece of stream) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split("\n");
    rest = lines.pop()!;
    yield* lines;
  }
}

/** Reads a stream to its end, and keeps its last bytes as text. */
async function tailOf(stream: ReadableStream<Uint8Array>): Promise<string> {
  let kept = new Uint8Array(0);
  for await (const piece of stream) {
    const all = new Uint8Array(kept.length + piece.length);
    all.set(kept);
    all.set(piece, kept.length);
    kept = all.slice(Math.max(0, all.length - KEPT_ERROR_BYTES));
  }
  return new TextDecoder().decode(kept);
}
