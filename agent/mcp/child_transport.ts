/** A local MCP server: a program that reads and writes messages as lines of JSON. */

import { MAX_WHOLE_KEY_CHARS, type Redact, redactedHead } from "../../core/chat_api/redact.ts";
import type { Clock } from "../../core/clock.ts";
import { doing } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import { LineReader, LineTooLong } from "../../core/line_reader.ts";
import { killProcessesOf } from "../environment/leftovers.ts";
import { OutputTail } from "../environment/output_tail.ts";
import { killGroup, killProgram, startProgram } from "../environment/program.ts";
import { removeFolder, WORKSPACE_PREFIX } from "../environment/workspace.ts";
import { MAX_ANSWER_BYTES } from "./guarded_fetch.ts";
import type { Message, Notice, Transport } from "./transport.ts";

/** The time that a server has to end by itself when its input ends. Some servers never do. */
export const END_GRACE_MS = 500;

/** How long to wait for the last output of a server that has ended. */
export const DRAIN_TIMEOUT_MS = 500;

/** The shown end of what a server writes to its standard error. With how it ended it has room in a message's reason. */
export const MAX_STDERR_CHARS = 800;

/** The most characters of a line in a message. */
export const MAX_QUOTED_CHARS = 80;

/** A local server. */
export interface ChildOptions {
  argv: readonly string[];
  cwd: string;
  env: Readonly<Record<string, string>>;
  /** The folder in which its HOME is made; absent, or there is no such folder: the system's folder of temporary files. */
  workspaces?: string | undefined;
  clock: Clock;
  notice: Notice;
  redact: Redact;
}

interface Running {
  child: Deno.ChildProcess;
  home: string;
  input: WritableStreamDefaultWriter<Uint8Array>;
  stderr: OutputTail;
  lines: LineReader;
  /** Resolves when its output has ended or was refused. */
  output: Promise<void>;
  ended: Promise<Deno.CommandStatus>;
}

/** The transport of a local server; it closes when the server ends, and ends the server and all that it started. */
export class ChildTransport implements Transport {
  onmessage?: (message: never) => void;
  onclose?: () => void;
  onerror?: (error: Error) => void;
  readonly #options: ChildOptions;
  #starting: Promise<void> | null = null;
  #running: Running | null = null;
  #closing: Promise<void> | null = null;
  /** Why the server was ended; null: it was not. */
  #refusal: string | null = null;
  #ending = "";
  /** The ids of requests without an answer. */
  readonly #open = new Set<unknown>();
  /** Bytes since the last answer to one of them. */
  #unasked_bytes = 0;

  constructor(options: ChildOptions) {
    this.#options = options;
  }

  /** How the server ended, with the end of its standard error; empty while it runs. */
  get ending(): string {
    return this.#ending;
  }

  /**
   * @throws {ServiceError} `environment_failed` when the program cannot be started, `infrastructure_failed` when its HOME
   * cannot be made.
   */
  start(): Promise<void> {
    return this.#starting ??= this.#start();
  }

  async #start(): Promise<void> {
    const { argv, cwd, env } = this.#options;
    const home = await this.#makeHome();
    let child: Deno.ChildProcess;
    try {
      child = await startProgram({ argv, name: argv[0]!, cwd, home, env, stdin: "piped" });
    } catch (error) {
      await removeFolder(home).catch(() => {});
      throw error;
    }
    const lines = new LineReader(child.stdout, MAX_ANSWER_BYTES);
    const running: Running = {
      child,
      home,
      lines,
      input: child.stdin.getWriter(),
      stderr: new OutputTail(child.stderr, MAX_STDERR_CHARS + MAX_WHOLE_KEY_CHARS),
      output: this.#read(lines).finally(() => lines.cancel()),
      // A child that holds the pipes open would hide the end.
      ended: child.status.finally(() => killGroup(child.pid)),
    };
    this.#running = running;
    running.output.then(() => this.close());
    running.ended.then(() => this.close());
  }

  async send(message: Message): Promise<void> {
    if (!this.#running || this.#closing) throw new Error("it has ended");
    if (message.id !== undefined && message.method !== undefined) this.#open.add(message.id);
    try {
      await this.#running.input.write(new TextEncoder().encode(`${JSON.stringify(message)}\n`));
    } catch {
      // A server that does not read has ended, or is about to; how it ended says more than a broken pipe.
      await this.close();
      throw new Error(`it ${this.#ending}`);
    }
  }

  close(): Promise<void> {
    return this.#closing ??= this.#end();
  }

  async #makeHome(): Promise<string> {
    const { workspaces: dir } = this.#options, prefix = WORKSPACE_PREFIX;
    const made = await doing("make a home", async () => {
      try {
        return await Deno.makeTempDir({ prefix, ...(dir !== undefined && { dir }) });
      } catch (error) {
        // A plan lists tools before its run has a folder, and may not write where that will be.
        const { NotFound, NotCapable } = Deno.errors;
        if (dir === undefined || !(error instanceof NotFound || error instanceof NotCapable)) throw error;
        return await Deno.makeTempDir({ prefix });
      }
    }, "infrastructure_failed");
    return await Deno.realPath(made);
  }

  /** Reads messages until the output ends or breaks a rule. */
  async #read(lines: LineReader): Promise<void> {
    try {
      for (let line; (line = await lines.next()) !== null;) {
        this.#unasked_bytes += line.length;
        const message = messageOf(line);
        if (message) {
          if (message.method === undefined && this.#open.delete(message.id)) this.#unasked_bytes = 0;
          this.onmessage?.(message as never);
        } else if (line.trim() !== "") this.#tellOfNoise(line);
        if (this.#unasked_bytes > MAX_ANSWER_BYTES) return this.#refuse("without an answer");
      }
    } catch (error) {
      if (error instanceof LineTooLong) return this.#refuse("on one line");
      this.onerror?.(error as Error);
    }
  }

  #refuse(how: string): void {
    this.#refusal = `was ended because it wrote more than ${MAX_ANSWER_BYTES} bytes ${how}`;
  }

  #tellOfNoise(line: string): void {
    const quoted = JSON.stringify(redactedHead(line, MAX_QUOTED_CHARS, this.#options.redact));
    this.#options.notice(
      "noise",
      `it wrote ${quoted} to its standard output, which is no message; further such lines are ignored silently`,
    );
  }

  async #end(): Promise<void> {
    await this.#starting?.catch(() => {});
    if (this.#running) await this.#endProcess(this.#running);
    this.onclose?.();
  }

  async #endProcess({ child, home, lines, input, stderr, output, ended }: Running): Promise<void> {
    const { clock } = this.#options;
    input.close().catch(() => {});
    const by_itself = this.#refusal === null ? await this.#within(END_GRACE_MS, ended) : null;
    killProgram(child);
    const status = await ended;
    try {
      await killProcessesOf(home, { clock });
    } catch {
      // The next start looks for leftovers again.
    } finally {
      await this.#within(DRAIN_TIMEOUT_MS, Promise.all([output, stderr.done]));
      await Promise.all([lines.cancel(), stderr.cancel(), input.abort().catch(() => {})]);
      await removeFolder(home).catch(() => {});
    }
    const how = this.#refusal ?? (by_itself ? endingOf(status) : "closed its standard output");
    const said = endOf(this.#options.redact(stderr.take()));
    // What a server says of a pipe that was closed in front of it explains nothing.
    this.#ending = said === "" || this.#refusal !== null ? how : `${how}: ${said}`;
  }

  /** The result of work; null when it takes longer. */
  async #within<T>(timeout_ms: number, work: Promise<T>): Promise<T | null> {
    const stop = new AbortController();
    const late = this.#options.clock.sleep(timeout_ms, stop.signal).then(() => null, () => null);
    try {
      return await Promise.race([work, late]);
    } finally {
      stop.abort();
    }
  }
}

/** The message on a line; null when there is none. */
function messageOf(line: string): Message | null {
  try {
    const value: unknown = JSON.parse(line);
    return isJsonObject(value) && value.jsonrpc === "2.0" ? value : null;
  } catch {
    return null;
  }
}

/** The end of a text that may be long. */
function endOf(text: string): string {
  return text.length <= MAX_STDERR_CHARS ? text : `…${text.slice(-MAX_STDERR_CHARS).toWellFormed()}`;
}

function endingOf({ signal, code }: Deno.CommandStatus): string {
  return signal === null ? `exited with status ${code}` : `was killed by ${signal}`;
}
