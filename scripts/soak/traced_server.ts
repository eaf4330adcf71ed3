/** A server whose processes are killed when they begin a durable step at which too few were killed before. */

import { ServerProcess } from "../../tests/server_process.ts";
import { type BegunCall, DURABLE_CALLS, type DurableSteps, TraceReader } from "./durable_steps.ts";

/** So long each call waits before the kernel has it: in this time the process must be killed. */
const DELAY_MS = 150;
/** A kill that is sent later than this may come after the call. */
const IN_TIME_MS = 0.8 * DELAY_MS;

/** `strace`, in front of a command: it tells of each call when the call begins, and delays it. */
function tracing(output: string): string[] {
  const calls = DURABLE_CALLS.join(","), delay = `inject=${calls}:delay_enter=${DELAY_MS * 1000}`;
  // As a grandchild (-D), so that the server has the id and the parent that it has without.
  const how = ["-D", "-f", "--seccomp-bpf", "-qq", "-y", "-ttt", "-e", "signal=none", "-o", output];
  const strace = ["strace", ...how, "-e", `trace=${calls}`, "-e", delay];
  // It shares the server's stderr, of which each line is JSON. The server alone gets that.
  const silent = ["sh", "-c", 'exec "$@" 3>&2 2>/dev/null', "sh"];
  return [...silent, ...strace, "sh", "-c", 'exec "$@" 2>&3 3>&-', "sh"];
}

/** @throws {Error} Where processes cannot be traced. */
export async function checkStrace(): Promise<void> {
  const { success, stderr } = await traceNothing();
  if (!success) throw new Error(`strace cannot trace a process here: ${new TextDecoder().decode(stderr)}`);
}

async function traceNothing(): Promise<Deno.CommandOutput> {
  try {
    return await new Deno.Command("strace", { args: ["-f", "-o", "/dev/null", "true"] }).output();
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    throw new Error("strace is missing: apt-get install strace");
  }
}

interface TracedServerOptions {
  config: string;
  /** A named pipe for what `strace` writes. */
  output: string;
  steps: DurableSteps;
  /** Tells of a kill. */
  say: (text: string) => void;
}

export class TracedServer {
  readonly #config: string;
  readonly #output: string;
  readonly #steps: DurableSteps;
  readonly #say: (text: string) => void;
  #server: ServerProcess | null = null;
  #tracing: Promise<void> = Promise.resolve();
  #is_armed = false;
  /** Where one of its processes was killed, and whether it was the server's own. */
  #killed: { step: string; is_server: boolean } | null = null;
  /** Kills that may have come after the call. */
  late = 0;

  constructor({ config, output, steps, say }: TracedServerOptions) {
    [this.#config, this.#output, this.#steps, this.#say] = [config, output, steps, say];
  }

  get url(): string {
    return this.#server!.url;
  }

  /** Where a process of this server was killed since its start; null when none was. */
  get killed(): { step: string; is_server: boolean } | null {
    return this.#killed;
  }

  /** Whether processes are killed from now on. */
  arm(is_armed: boolean): void {
    this.#is_armed = is_armed;
  }

  /** Starts it where it does not run, again after kills on the way. It is not armed then. */
  async start(is_armed: boolean): Promise<void> {
    while (!this.#server) {
      this.#killed = null;
      this.#steps.startAgain();
      this.#is_armed = is_armed;
      this.#tracing = this.#trace();
      try {
        this.#server = await ServerProcess.start({ config: this.#config, prefix: tracing(this.#output) });
      } catch (error) {
        if (!this.#killed) throw error;
      }
      this.#is_armed = false;
      if (this.#killed) await this.end("SIGKILL");
    }
  }

  /** Ends it with a signal, unless it was killed, and waits until all of its processes are gone. */
  async end(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    if (this.#server && !this.#killed?.is_server) await this.#server.stop(signal);
    else await this.#server?.ended();
    await this.#tracing;
    this.#server = null;
  }

  async #trace(): Promise<void> {
    const reader = new TraceReader();
    using pipe = await Deno.open(this.#output);
    for await (const piece of pipe.readable.pipeThrough(new TextDecoderStream())) {
      for (const call of reader.take(piece)) this.#begins(call);
    }
  }

  #begins(call: BegunCall): void {
    const is_server = isChild(call.thread);
    if (is_server === null) return;
    const step = this.#steps.found(is_server ? "server" : "process", call);
    if (step === null || !this.#is_armed || this.#killed || this.#steps.isDone(step)) return;
    if (!kill(call.thread)) return;
    this.#killed = { step, is_server };
    if (Date.now() - call.time_ms <= IN_TIME_MS) this.#steps.killedAt(step);
    else this.late++;
    this.#say(`${this.late ? `${this.late} late; ` : ""}killed at ${step}`);
  }
}

/** Kills the process of a thread. @returns False when it is gone. */
function kill(thread: number): boolean {
  try {
    Deno.kill(thread, "SIGKILL");
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** Whether a thread is of a child of this process, rather than of a child's child; null when it is gone. */
function isChild(thread: number): boolean | null {
  try {
    const status = Deno.readTextFileSync(`/proc/${thread}/status`);
    return Number(/^PPid:\s*(\d+)/m.exec(status)?.[1]) === Deno.pid;
  } catch {
    return null;
  }
}
