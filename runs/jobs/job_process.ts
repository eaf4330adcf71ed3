/** The server's side of a child process that answers jobs, one at a time, as JSON lines. */

import { entryFlags } from "../../core/deno_flags.ts";
import { errorFromRecord, type ErrorRecord, ServiceError } from "../../core/errors.ts";
import { permissionFlags, type PermissionNeeds } from "../../core/permissions.ts";
import { JOB_COMMAND } from "./job_command.ts";
import type { JobLimits, JobName } from "./job_table.ts";

/** The longest answer. */
const MAX_ANSWER_BYTES = 64 << 20;

/** How much of the end of a process's standard error is kept. */
const MAX_STDERR_CHARS = 4096;

/** Time between two checks of a process's memory. */
const LOOK_MS = 50;

/** A request for a job in the pipe. */
export interface JobLine {
  name: JobName;
  request: unknown;
}

/** An answer in the pipe. */
export type JobAnswerLine = { answer: unknown } | { error: ErrorRecord };

export interface JobProcessOptions {
  /** The program's entry file. */
  entry_url: string;
  needs: readonly PermissionNeeds[];
  memory_bytes: number;
}

/**
 * The command of a process. Its JavaScript heap may take half of the memory; the runtime and buffers need the rest. A
 * compiled program cannot narrow its permissions, and reads V8's flags from an environment variable.
 */
function jobCommand({ entry_url, needs, memory_bytes }: JobProcessOptions): Deno.Command {
  const heap = `--max-old-space-size=${Math.floor(memory_bytes / 2 ** 21)}`;
  const pipes = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;
  if (Deno.build.standalone) {
    return new Deno.Command(Deno.execPath(), { args: [JOB_COMMAND], env: { DENO_V8_FLAGS: heap }, ...pipes });
  }
  const common = ["--quiet", "--no-check", "--no-prompt", "--cached-only", ...entryFlags()];
  const flags = [...common, `--v8-flags=${heap}`, ...permissionFlags(needs)];
  return new Deno.Command(Deno.execPath(), { args: ["run", ...flags, entry_url, JOB_COMMAND], ...pipes });
}

/** The most memory that a process has used; null on systems other than Linux. */
async function peakBytes(pid: number): Promise<number | null> {
  if (Deno.build.os !== "linux") return null;
  const status = await Deno.readTextFile(`/proc/${pid}/status`).catch(() => "");
  const match = /^VmHWM:\s+(\d+) kB$/m.exec(status);
  return match ? Number(match[1]) * 1024 : null;
}

/** Why a process was killed. */
type Ended = "seconds" | "memory_bytes" | "cancelled" | "answer";

export class JobProcess {
  readonly #child: Deno.ChildProcess;
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array>;
  readonly #answers: ReadableStreamDefaultReader<Uint8Array>;
  readonly #stderr: Promise<string>;
  readonly #memory_bytes: number;
  #rest: Uint8Array = new Uint8Array();
  #killed: Ended | null = null;

  constructor(options: JobProcessOptions) {
    this.#child = jobCommand(options).spawn();
    this.#memory_bytes = options.memory_bytes;
    this.#stdin = this.#child.stdin.getWriter();
    this.#answers = this.#child.stdout.getReader();
    this.#stderr = lastText(this.#child.stderr);
  }

  /**
   * Runs a job. After an error that is not the job's own, the process is gone.
   *
   * @throws {ServiceError} The job's own errors; `data_invalid` when it exceeded a limit; `internal` when the process
   * failed, with `details.killed_by` when another program killed it; the signal's reason.
   */
  async ask(
    line: JobLine,
    { doing, limits, signal }: { doing: string; limits: JobLimits; signal: AbortSignal },
  ): Promise<JobAnswerLine> {
    signal.throwIfAborted();
    const cancel = () => this.#kill("cancelled");
    signal.addEventListener("abort", cancel, { once: true });
    const timer = setTimeout(() => this.#kill("seconds"), limits.seconds * 1000);
    const watch = this.#watchMemory();
    try {
      // A process that dies before it reads breaks the pipe. Then it has no answer, which is handled below.
      await this.#stdin.write(new TextEncoder().encode(`${JSON.stringify(line)}\n`)).catch(() => {});
      const text = await this.#readLine();
      if (text !== null) return JSON.parse(text);
      throw await this.#failure(doing, limits, signal);
    } finally {
      clearTimeout(timer);
      watch.stop();
      signal.removeEventListener("abort", cancel);
    }
  }

  /** Ends the process, and resolves when it is gone. */
  async close(): Promise<void> {
    this.#kill("cancelled");
    await this.#stdin.close().catch(() => {});
    await this.#answers.cancel().catch(() => {});
    await this.#stderr;
    await this.#child.status;
  }

  #kill(why: Ended): void {
    this.#killed ??= why;
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
  }

  #watchMemory(): { stop(): void } {
    let is_looking = false;
    const timer = setInterval(async () => {
      if (is_looking) return;
      is_looking = true;
      const peak = await peakBytes(this.#child.pid);
      is_looking = false;
      if (peak !== null && peak > this.#memory_bytes) this.#kill("memory_bytes");
    }, LOOK_MS);
    return { stop: () => clearInterval(timer) };
  }

  /** The next line of the answers; null at their end. */
  async #readLine(): Promise<string | null> {
    const pieces = [this.#rest];
    let length = this.#rest.length;
    while (true) {
      const last = pieces.at(-1)!, at = last.indexOf(10);
      if (at >= 0) {
        this.#rest = last.subarray(at + 1);
        pieces[pieces.length - 1] = last.subarray(0, at);
        return await new Blob(pieces as Uint8Array<ArrayBuffer>[]).text();
      }
      if (length > MAX_ANSWER_BYTES) this.#kill("answer");
      const { done, value } = await this.#answers.read();
      if (done) return null;
      pieces.push(value);
      length += value.length;
    }
  }

  /** The error for a process that ended instead of answering. */
  async #failure(doing: string, limits: JobLimits, signal: AbortSignal): Promise<unknown> {
    const { code, signal: by } = await this.#child.status;
    const stderr = await this.#stderr;
    if (this.#killed === "cancelled") return signal.reason ?? cancelled(doing);
    // V8 ends the process itself when its heap is full.
    const is_full = /heap out of memory|Fatal JavaScript/.test(stderr) || by === "SIGTRAP" || code === 133;
    if (this.#killed === "seconds") return limitError(doing, "seconds", limits);
    if (this.#killed === "memory_bytes" || (this.#killed === null && is_full)) {
      return limitError(doing, "memory_bytes", limits);
    }
    const reason = this.#killed === "answer"
      ? `its answer has more than ${MAX_ANSWER_BYTES} bytes`
      : by !== null
      ? `its process was killed (${by})`
      : `its process ended with status ${code}`;
    const details = this.#killed === null && by !== null ? { killed_by: by } : {};
    return new ServiceError("internal", `Cannot ${doing}: ${reason}\n${stderr}`.trimEnd(), details);
  }
}

/** The error of a job that ended with its pool. */
function cancelled(doing: string): ServiceError {
  return new ServiceError("cancelled", `Cannot ${doing}: the jobs were closed`);
}

function limitError(doing: string, limit: keyof JobLimits, limits: JobLimits): ServiceError {
  const needs = limit === "seconds"
    ? `it takes longer than ${limits.seconds} s`
    : `it needs more than ${Math.round(limits.memory_bytes / 2 ** 20)} MiB of memory`;
  return new ServiceError("data_invalid", `Cannot ${doing}: ${needs}`, { limit });
}

async function lastText(stream: ReadableStream<Uint8Array>): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of stream) {
    text = (text + decoder.decode(chunk, { stream: true })).slice(-MAX_STDERR_CHARS);
  }
  return text;
}

/** The answer of a line. @throws {ServiceError} The job's own error. */
export function answerOf(line: JobAnswerLine): unknown {
  if ("error" in line) throw errorFromRecord(line.error);
  return line.answer;
}
