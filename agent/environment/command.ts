/** Runs programs to their end, with a time limit and capped output. */

import type { Clock } from "../../core/clock.ts";
import type { CommandResult, SandboxCommand } from "../tools/sandbox.ts";
import { killProcessesOf, type LeftoverOptions, WORKSPACE_VARIABLE } from "./leftovers.ts";
import { killGroup, killProgram, type ProgramOptions, startProgram } from "./program.ts";

/** Bytes of stdout and of stderr to keep; later output is read and discarded. */
export const MAX_OUTPUT_BYTES = 1 << 20;

/**
 * After a command shorter than this, only processes with a greater id than its own need to be checked. During a longer
 * one, process ids could wrap around: there are 32,768.
 */
export const SHORT_COMMAND_MS = 250;

/** How long a result waits for the search for leftovers when the caller can wait for it later. */
export const SEARCH_WAIT_MS = 400;

/**
 * How long to wait for output after all found processes are dead: a process that was not found can keep the pipe open.
 */
export const DRAIN_TIMEOUT_MS = 500;

export interface CommandOptions extends SandboxCommand, Pick<ProgramOptions, "folders" | "env" | "launcher"> {
  cwd: string;
  /** Its HOME; a real path. Default: `cwd`. */
  home?: string;
  timeout_ms: number;
  clock: Clock;
  signal: AbortSignal;
  /** Receives the search for leftovers when it takes longer than {@link SEARCH_WAIT_MS}. Absent: it is waited for. */
  searching?: (search: Promise<unknown>) => void;
  /** See {@link LeftoverOptions}. */
  proc?: LeftoverOptions["proc"];
}

/**
 * Runs a program to its end, or kills its process group when the time is up or the signal aborts. Its background
 * processes are killed too. On Linux that includes processes in other sessions, which are found as `killProcessesOf`
 * says; the search takes at most `LOOK_TIMEOUT_MS`. With `searching` the result comes within `SEARCH_WAIT_MS` and
 * `DRAIN_TIMEOUT_MS` of the program's end.
 *
 * @param options.cwd The program's working directory, by which its processes are found; a real path.
 * @throws {ServiceError} `environment_failed` when the program cannot be started or the search for leftovers fails.
 */
export async function runCommand(options: CommandOptions): Promise<CommandResult> {
  const { argv, cwd, home = cwd, clock, signal, timeout_ms, stdin = "", tail_bytes = 0 } = options;
  const has_input = stdin !== "";
  const child = await startProgram({
    ...options,
    name: argv[0]!,
    cwd,
    home,
    env: { ...options.env, ...home !== cwd && { [WORKSPACE_VARIABLE]: cwd } },
    stdin: has_input ? "piped" : "null",
  });
  const cap = options.max_output_bytes ?? MAX_OUTPUT_BYTES;
  const outputs = [child.stdout, child.stderr].map((stream) => new CappedOutput(stream, cap, tail_bytes));
  const started_ms = clock.monotonic_ms();
  const stop = new AbortController();
  if (has_input) {
    // A program may end without reading its input.
    new Blob([stdin]).stream().pipeTo(child.stdin, { signal: stop.signal }).catch(() => {});
  }
  let ended: CommandResult["ended"] = "exited";
  const end = (why: "timeout" | "cancelled") => {
    ended = why;
    killProgram(child);
  };
  const abort = () => end("cancelled");
  if (signal.aborted) abort();
  signal.addEventListener("abort", abort, { once: true });
  clock.sleep(timeout_ms, stop.signal).then(() => end("timeout"), () => {});
  const status = await child.status;
  stop.abort();
  signal.removeEventListener("abort", abort);
  killGroup(child.pid);
  const is_short = clock.monotonic_ms() - started_ms < SHORT_COMMAND_MS;
  try {
    // Also after an abort: a cancelled command must not leave processes either.
    const { proc, searching } = options;
    const search = killProcessesOf(cwd, { clock, after: is_short ? child.pid : 0, ...proc && { proc } });
    if (!searching) await search;
    else if (!await isDoneWithin(search, SEARCH_WAIT_MS, clock)) searching(search);
  } finally {
    await drain(outputs, clock);
  }
  if (ended === "exited" && status.signal !== null) ended = "killed";
  const capped = outputs.some((output) => output.capped);
  return {
    code: ended === "exited" ? status.code : null,
    ended,
    stdout: outputs[0]!.text(),
    stderr: outputs[1]!.text(),
    capped,
    ...capped && tail_bytes > 0 && { tails: { stdout: outputs[0]!.tail(), stderr: outputs[1]!.tail() } },
  };
}

async function drain(outputs: readonly CappedOutput[], clock: Clock): Promise<void> {
  await isDoneWithin(Promise.all(outputs.map((output) => output.done)), DRAIN_TIMEOUT_MS, clock);
  await Promise.all(outputs.map((output) => output.cancel()));
}

/** Whether work is done in time. @throws What the work throws in time. */
export async function isDoneWithin(work: Promise<unknown>, limit_ms: number, clock: Clock): Promise<boolean> {
  const done = new AbortController();
  const late = clock.sleep(limit_ms, done.signal).then(() => false, () => false);
  try {
    return await Promise.race([work.then(() => true), late]);
  } finally {
    done.abort();
  }
}

/** Reads a stream to its end and keeps its first bytes, and on request its last ones. */
class CappedOutput {
  readonly done: Promise<void>;
  capped = false;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #pieces: Uint8Array[] = [];
  #left: number;
  #tail: Uint8Array = new Uint8Array();

  constructor(stream: ReadableStream<Uint8Array>, max_bytes: number, readonly tail_bytes: number) {
    this.#left = max_bytes;
    this.#reader = stream.getReader();
    this.done = this.#read();
  }

  async #read(): Promise<void> {
    while (true) {
      const { value, done } = await this.#reader.read();
      if (done) return;
      const kept = value.subarray(0, this.#left);
      this.#left -= kept.length;
      if (kept.length > 0) this.#pieces.push(kept);
      if (kept.length < value.length) this.capped = true;
      if (this.tail_bytes > 0) this.#keepTail(value);
    }
  }

  #keepTail(value: Uint8Array): void {
    const before = value.length < this.tail_bytes ? this.#tail.subarray(value.length - this.tail_bytes) : [];
    const end = value.subarray(-this.tail_bytes);
    const tail = new Uint8Array(before.length + end.length);
    tail.set(before);
    tail.set(end, before.length);
    this.#tail = tail;
  }

  /** The last bytes of a capped output; "" of one that is complete. */
  tail(): string {
    // The first character may have lost its first bytes.
    return this.capped ? new TextDecoder().decode(this.#tail).replace(/^\ufffd{1,3}/, "") : "";
  }

  async cancel(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
    await this.done.catch(() => {});
  }

  text(): string {
    const decoder = new TextDecoder();
    return this.#pieces.map((piece) => decoder.decode(piece, { stream: true })).join("") + decoder.decode();
  }
}
