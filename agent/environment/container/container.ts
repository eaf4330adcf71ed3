/** One container, with the helper that runs in it. */

import { type Clock, systemClock } from "../../../core/clock.ts";
import { ServiceError } from "../../../core/errors.ts";
import { askEngine, engineReason, removal, startEngineProgram } from "../container_engine.ts";
import { BLOCK_BYTES, FILE_STATUS, HELPER_COMMAND, HELPER_PROGRAMS, quoted } from "./helper_script.ts";
import { MarkedStream, type Sink, StreamEnded } from "./marked_stream.ts";
import { type ContainerOptions, runArguments } from "./run_arguments.ts";

/** The time that a container has to start. */
export const START_TIMEOUT_MS = 60_000;

/** The time after a limit in which a call must end; then the container is ended. */
export const GRACE_MS = 1000;

/** The time that a container has to end before its engine is asked again, and then for the engine's program. */
export const END_TIMEOUT_MS = 5000;

/** A call's input is sent in chunks of at most so many bytes; the helper holds one. */
const CHUNK_BYTES = 1 << 20;

/** How long after a command's limit the container itself ends it, in case nobody else does. */
const BACKSTOP_SECS = 2;

/**
 * Runs a container with a name that says what its image lacks.
 *
 * @throws {ServiceError} `infrastructure_failed` with the engine's reason, or the programs that the image lacks.
 */
export async function probeImage(
  options: ContainerOptions,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  const { engine, image, clock = systemClock } = options;
  const line = `for p in ${HELPER_PROGRAMS.join(" ")}; do command -v $p >/dev/null || echo $p; done`;
  const args = runArguments(options, name, ["sh", "-c", line]);
  const asked = askEngine(engine.program, args, { clock, timeout_ms: START_TIMEOUT_MS, signal });
  const answer = await asked.catch(async (error) => {
    // Its program was ended, which ends no container.
    await askEngine(engine.program, removal(engine, [name]), { clock }).catch(() => {});
    throw error;
  });
  if (answer.code !== 0) throw startFailure(options, answer.stderr);
  const lacking = answer.stdout.split("\n").filter((name) => name !== "");
  if (lacking.length > 0) {
    throw new ServiceError(
      "infrastructure_failed",
      `Cannot use the image ${image}: it lacks ${lacking.join(", ")}, which the sandbox needs; add them`,
    );
  }
}

function startFailure({ engine, image }: ContainerOptions, stderr: string): ServiceError {
  return new ServiceError(
    "infrastructure_failed",
    `Cannot start a container of ${image} with ${engine.program}: ${engineReason({ stderr })}`,
  );
}

/** A line for the helper. */
export interface ContainerCall {
  line: string;
  /** Pieces of the line's input. Absent: it is empty. */
  input?: Iterable<Bytes> | AsyncIterable<Bytes>;
  /** Bytes of standard output, and of standard error, to keep. */
  max_output_bytes: number;
  /** Bytes of the end of each output to keep when it has more. Default: none. */
  tail_bytes?: number;
  /** Takes the standard output, which the reply has not then. It has at most `max_output_bytes` and a block. */
  sink?: Sink;
  timeout_ms: number;
  clock: Clock;
  signal: AbortSignal;
}

/** What a line wrote to an output. */
export interface KeptOutput {
  /** Its first bytes. */
  bytes: Bytes;
  /** Whether it had more. */
  capped: boolean;
  /** Its last bytes, if it had more and the call asked for them. */
  tail: Bytes;
}

/** How a call ended. */
export interface ContainerReply {
  ended: "exited" | "killed" | "timeout" | "cancelled";
  /** The exit status of the line; meaningless unless it exited. */
  code: number;
  /** The program is not in the container. */
  is_missing: boolean;
  stdout: KeptOutput;
  stderr: KeptOutput;
  /** The memory limit killed processes during the call. */
  out_of_memory: boolean;
}

type Bytes = Uint8Array<ArrayBuffer>;

const randomWord = () => crypto.randomUUID().replaceAll("-", "");

const NO_BYTES = new Uint8Array();

const NO_OUTPUT: KeptOutput = { bytes: NO_BYTES, capped: false, tail: NO_BYTES };

/** A container that runs. */
export class RunningContainer {
  readonly #out: MarkedStream;
  readonly #err: MarkedStream;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;
  readonly #clock: Clock;
  #oom_kills = 0;
  #is_exposed = false;
  #is_busy = false;
  #ending: Promise<void> | null = null;

  private constructor(
    readonly options: ContainerOptions,
    readonly name: string,
    readonly child: Deno.ChildProcess,
  ) {
    this.#clock = options.clock ?? systemClock;
    this.#out = new MarkedStream(child.stdout);
    this.#err = new MarkedStream(child.stderr);
    this.#input = child.stdin.getWriter();
    this.#input.closed.catch(() => {});
  }

  /** @throws {ServiceError} `infrastructure_failed`; the signal's reason. */
  static async start(
    options: ContainerOptions,
    name: string,
    signal: AbortSignal,
  ): Promise<RunningContainer> {
    signal.throwIfAborted();
    const args = runArguments(options, name, HELPER_COMMAND);
    const child = startEngineProgram(options.engine.program, args, "piped");
    const container = new RunningContainer(options, name, child);
    const stop = new AbortController();
    const ended = AbortSignal.any([stop.signal, signal]);
    const late = container.#clock.sleep(START_TIMEOUT_MS, ended).then(() => {
      signal.throwIfAborted();
      throw startFailure(options, `it did not start within ${START_TIMEOUT_MS / 1000} s`);
    });
    late.catch(() => {});
    try {
      const ready = container.#out.until(/ready( exposed)?\n$/, 64);
      const { marker } = await Promise.race([ready, late]);
      container.#is_exposed = marker[1] !== undefined;
      return container;
    } catch (error) {
      // Its last words may come a little later than its end.
      const words = () => child.status.then(() => container.#err.rest());
      const said = error instanceof StreamEnded ? await container.#soon(words(), "") : "";
      container.#is_busy = true;
      await container.end();
      signal.throwIfAborted();
      throw error instanceof StreamEnded ? startFailure(options, said) : error;
    } finally {
      stop.abort();
    }
  }

  /** Whether programs in it can read the helper's memory, and so forge how they end: its kernel hides none. */
  get is_exposed(): boolean {
    return this.#is_exposed;
  }

  /** Whether it can take calls. */
  get is_usable(): boolean {
    return this.#ending === null;
  }

  /**
   * Runs a line to its end, to its limit or until the signal aborts. A container whose helper does not answer within
   * {@link GRACE_MS} after that is ended, and the call has no output then.
   *
   * @throws {ServiceError} `environment_failed` with `details.sandbox_lost` when the container has ended.
   */
  async call(call: ContainerCall): Promise<ContainerReply> {
    if (!this.is_usable || this.#is_busy) throw this.#lost();
    this.#is_busy = true;
    try {
      return await this.#call(call);
    } catch (error) {
      this.end();
      throw error instanceof StreamEnded ? this.#lost() : error;
    } finally {
      if (this.is_usable) this.#is_busy = false;
    }
  }

  async #call(call: ContainerCall): Promise<ContainerReply> {
    const { line, input, max_output_bytes: cap, tail_bytes = 0, sink } = call;
    const [word, stopper] = [randomWord(), randomWord()];
    // A call that does not read its input keeps the helper from reading that it is stopped.
    const limit = Math.ceil(call.timeout_ms / 1000) + (input ? 0 : BACKSTOP_SECS);
    // A byte more shows that there were more.
    const blocks = Math.floor(cap / BLOCK_BYTES) + 1, most = blocks * BLOCK_BYTES + tail_bytes;
    const head = `${word} ${stopper} ${limit} ${blocks} ${tail_bytes} ${input ? 1 : 0}\n${line}\n`;
    const sent = this.#request(head, input);
    const answered = Promise.all([
      this.#out.until(new RegExp(`${word} (\\d+) \\.(\\w*) (\\d+)\n$`), most, sink),
      this.#err.until(new RegExp(`${word}$`), most),
      sent,
    ]);
    const { answer, why } = await this.#within(
      answered,
      call,
      () => sent.then(() => this.#say(`stop ${stopper}\n`)),
    );
    if (answer === null) {
      const nothing = { stdout: NO_OUTPUT, stderr: NO_OUTPUT, out_of_memory: false };
      return { ended: why ?? "killed", code: -1, is_missing: false, ...nothing };
    }
    this.#say(`next ${word}\n`);
    const [out, err] = answer, [, status, notes, oom_kills] = out.marker;
    const out_of_memory = Number(oom_kills) > this.#oom_kills;
    this.#oom_kills = Number(oom_kills);
    const was_killed = notes!.includes("k") || !notes!.includes("a");
    return {
      ended: why ?? (was_killed ? "killed" : "exited"),
      code: Number(status),
      is_missing: notes!.includes("m"),
      stdout: keptOutput(out.bytes, cap, tail_bytes),
      stderr: keptOutput(err.bytes, cap, tail_bytes),
      out_of_memory,
    };
  }

  async #request(head: string, input: ContainerCall["input"]): Promise<void> {
    this.#say(head);
    if (!input) return;
    for await (const piece of input) {
      for (let at = 0; at < piece.length; at += CHUNK_BYTES) {
        const chunk = piece.subarray(at, at + CHUNK_BYTES);
        this.#say(`${chunk.length}\n`);
        await this.#send(chunk);
      }
    }
    this.#say("0\n");
  }

  #say(text: string): void {
    this.#send(new TextEncoder().encode(text));
  }

  /** A container that has ended does not read; the missing answer shows that. */
  async #send(bytes: Bytes): Promise<void> {
    await this.#input.write(bytes).catch(() => {});
  }

  /**
   * Waits for the answer. At the limit, or when the signal aborts, the call is stopped, and the answer has
   * {@link GRACE_MS} more; then the container is ended.
   */
  async #within<A>(
    answered: Promise<A>,
    { timeout_ms, clock, signal }: ContainerCall,
    stop_call: () => Promise<void>,
  ): Promise<{ answer: A | null; why: "timeout" | "cancelled" | null }> {
    answered.catch(() => {});
    const stop = new AbortController();
    const timed = clock.sleep(timeout_ms, stop.signal).then(() => "timeout" as const);
    timed.catch(() => {});
    const aborted = new Promise<"cancelled">((resolve) => {
      if (signal.aborted) resolve("cancelled");
      signal.addEventListener("abort", () => resolve("cancelled"), { once: true, signal: stop.signal });
    });
    const why = await Promise.race([answered.then(() => null), timed, aborted]).finally(() => stop.abort());
    if (why === null) return { answer: await answered, why };
    stop_call().catch(() => {});
    const grace = new AbortController();
    const given_up = this.#clock.sleep(GRACE_MS, grace.signal).then(() => null);
    given_up.catch(() => {});
    const answer = await Promise.race([answered, given_up]).finally(() => grace.abort());
    if (answer === null) this.end();
    return { answer, why };
  }

  #lost(): ServiceError {
    return new ServiceError(
      "environment_failed",
      "Cannot use the container: it has ended; a command may have taken all of its memory",
      { sandbox_lost: true },
    );
  }

  /**
   * Runs a function for files; its standard error is discarded.
   *
   * @throws {ServiceError} `environment_failed`, with `details.too_slow` past the limit.
   */
  async files(
    name: string,
    args: readonly string[],
    call: Omit<ContainerCall, "line">,
  ): Promise<ContainerReply> {
    const line = `${[name, ...args.map(quoted)].join(" ")} 2>/dev/null`;
    const reply = await this.call({ ...call, line });
    if (reply.ended !== "timeout" && reply.ended !== "cancelled") return reply;
    call.signal.throwIfAborted();
    const message = `Cannot use the container's files: ${name} took too long`;
    throw new ServiceError("environment_failed", message, { too_slow: true });
  }

  /** Removes all that its calls left. Whether nothing is left, so that another attempt may have it. */
  async clean(timeout_ms: number): Promise<boolean> {
    if (!this.is_usable) return false;
    const { signal } = new AbortController();
    const call = { max_output_bytes: 4096, timeout_ms, clock: this.#clock, signal };
    const reply = await this.files("f_clean", [], call).catch(() => null);
    return reply?.ended === "exited" && reply.code === 0 && !reply.out_of_memory;
  }

  /** Ends it, and resolves when it is gone. Never throws; further calls wait for the same end. */
  end(): Promise<void> {
    return this.#ending ??= this.#end();
  }

  async #end(): Promise<void> {
    const { engine } = this.options;
    const ask = (...args: string[]) =>
      askEngine(engine.program, args, { clock: this.#clock }).catch(() => null);
    // Without input the helper ends, and with it what it runs.
    this.#input.close().catch(() => {});
    if (this.#is_busy) await ask("kill", this.name);
    if (!await this.#hasEnded()) {
      await ask(...removal(engine, [this.name]));
      if (!await this.#hasEnded()) {
        try {
          this.child.kill("SIGKILL");
        } catch { /* it has ended */ }
        await this.child.status;
        // Its program may have made the container in the meantime.
        await ask(...removal(engine, [this.name]));
      }
    }
    await Promise.all([this.#out.cancel(), this.#err.cancel()]);
    this.#input.abort().catch(() => {});
  }

  #hasEnded(): Promise<boolean> {
    return this.#soon(this.child.status.then(() => true), false);
  }

  /** What a promise gives within {@link END_TIMEOUT_MS}, else another value. */
  async #soon<T>(promise: Promise<T>, otherwise: T): Promise<T> {
    const stop = new AbortController();
    promise.catch(() => {});
    const late = this.#clock.sleep(END_TIMEOUT_MS, stop.signal).then(() => otherwise);
    late.catch(() => {});
    return await Promise.race([promise, late]).finally(() => stop.abort());
  }
}

/** @param bytes All of an output, or its first bytes, more than `cap`, and its last ones. */
function keptOutput(bytes: Bytes, cap: number, tail_bytes: number): KeptOutput {
  const capped = bytes.length > cap;
  const tail = capped && tail_bytes > 0 ? bytes.subarray(-tail_bytes) : NO_BYTES;
  return { bytes: bytes.subarray(0, cap), capped, tail };
}

/** Whether a status of a function for files is one of its refusals. */
export function fileRefusal(code: number): keyof typeof FILE_STATUS | null {
  const [name] = Object.entries(FILE_STATUS).find(([, status]) => status === code) ?? [];
  return (name ?? null) as keyof typeof FILE_STATUS | null;
}
