/** One session with an MCP server: a process of its own, or a session of the streamable HTTP transport. */

import type { ExpandedMcpServer } from "../../config/check/mcp_config.ts";
import type { Redact } from "../../core/chat_api/redact.ts";
import type { Clock } from "../../core/clock.ts";
import { unlessAborted } from "../environment/unless_aborted.ts";
import { ChildTransport } from "./child_transport.ts";
import { guardedFetch } from "./guarded_fetch.ts";
import { type CallOutcome, connect, type Connection, httpTransport, type ListedTool } from "./sdk.ts";
import { GuardedTransport, type Notice, type Transport } from "./transport.ts";

/** The time that a server has to start and shake hands. */
export const START_TIMEOUT_MS = 30_000;

/** The time that a remote server has to end a session. */
export const LEAVE_TIMEOUT_MS = 2000;

/** What a session needs besides its server. */
export interface SessionOptions {
  workspaces?: string | undefined;
  clock: Clock;
  notice: Notice;
  /** Keeps secrets out of what is quoted of the server. */
  redact: Redact;
}

/** What a transport needs besides carrying messages. */
interface Line {
  transport: Transport;
  /** How the server ended; empty while it has not. */
  ending(): string;
  /** Takes leave before the transport closes. */
  leave(): Promise<void>;
}

/** An open session. */
export class Session {
  readonly #line: Line;
  readonly #guard: GuardedTransport;
  readonly #clock: Clock;
  #connection: Connection | null = null;
  /** Aborts when the transport has closed. */
  readonly #closed = new AbortController();
  #closing: Promise<void> | null = null;
  #calls = 0;
  #is_retired = false;
  /** A call was given up, and no answer came since. */
  #is_silent = false;

  private constructor(line: Line, { clock, notice, redact }: SessionOptions) {
    this.#line = line;
    this.#guard = new GuardedTransport(line.transport, { notice, redact });
    this.#clock = clock;
  }

  /** Starts a server, or goes to one, and shakes hands. @throws Why there is no session. */
  static async open(
    server: ExpandedMcpServer,
    options: SessionOptions,
    signal: AbortSignal,
  ): Promise<Session> {
    const session = new Session(await lineOf(server, options), options);
    try {
      await session.#handshake(options, signal);
      return session;
    } catch (error) {
      const explained = session.#explained(error);
      await session.close();
      throw explained;
    }
  }

  async #handshake({ clock, notice }: SessionOptions, signal: AbortSignal): Promise<void> {
    const late = new AbortController(), done = new AbortController();
    const end = () => late.abort(new Error(`it did not start within ${START_TIMEOUT_MS / 1000} s`));
    clock.sleep(START_TIMEOUT_MS, done.signal).then(end, () => {});
    const ended = AbortSignal.any([signal, late.signal]);
    const on = {
      list_changed: () =>
        notice("list_changed", "it changed its tools; the run keeps those that it began with"),
      closed: () => this.#closed.abort(new Error("it ended")),
    };
    try {
      this.#connection = await unlessAborted(connect(this.#guard, on, ended), ended);
    } finally {
      done.abort();
    }
  }

  /** Whether calls can be sent. */
  get is_open(): boolean {
    return !this.#closed.signal.aborted && !this.#is_retired;
  }

  /** Whether everything of it has ended. */
  get is_closed(): boolean {
    return this.#closed.signal.aborted && this.#closing !== null;
  }

  /** Whether a call was given up, nothing was answered since, and no other call waits: the server may hang. */
  get may_hang(): boolean {
    return this.#is_silent && this.#calls === 0;
  }

  /** @throws Why there is no list. */
  async list(signal: AbortSignal): Promise<ListedTool[]> {
    return await this.#ask((connection, ended) => connection.list(ended), signal);
  }

  /** @throws Why there is no answer. The session is retired then, unless the signal gave the call up. */
  async call(
    call: { name: string; arguments: Record<string, unknown> },
    signal: AbortSignal,
  ): Promise<CallOutcome> {
    const answers = this.#guard.answers;
    this.#calls++;
    try {
      const outcome = await this.#ask((connection, ended) => connection.call(call, ended), signal);
      this.#is_silent = false;
      return outcome;
    } catch (error) {
      if (signal.aborted) this.#is_silent = this.#guard.answers === answers;
      else this.#is_retired = true;
      throw this.#explained(error);
    } finally {
      this.#calls--;
      if (this.#is_retired) await this.retire();
    }
  }

  async #ask<T>(work: (on: Connection, ended: AbortSignal) => Promise<T>, signal: AbortSignal): Promise<T> {
    // When the transport closes, the client's own requests fail.
    return await unlessAborted(work(this.#connection!, signal), signal);
  }

  /** The error, or how the server ended where it did. */
  #explained(error: unknown): Error {
    const ending = this.#line.ending();
    if (ending !== "") return new Error(`it ${ending}`, { cause: error });
    return error instanceof Error ? error : new Error(String(error));
  }

  /** Takes no further calls; closes when those that wait have their answers. */
  async retire(): Promise<void> {
    this.#is_retired = true;
    if (this.#calls === 0) await this.close();
  }

  /** Ends the session, and a local server with all that it started. Never throws. */
  close(): Promise<void> {
    this.#is_retired = true;
    return this.#closing ??= this.#close();
  }

  async #close(): Promise<void> {
    const done = new AbortController();
    const late = this.#clock.sleep(LEAVE_TIMEOUT_MS, done.signal).catch(() => {});
    await Promise.race([this.#line.leave().catch(() => {}), late]);
    done.abort();
    await this.#guard.close().catch(() => {});
    this.#closed.abort(new Error("it ended"));
  }
}

async function lineOf(server: ExpandedMcpServer, options: SessionOptions): Promise<Line> {
  const { command, cwd, url, env = {}, headers = {} } = server, { clock } = options;
  if (command) {
    const transport = new ChildTransport({ ...options, argv: command, cwd: cwd ?? Deno.cwd(), env });
    return { transport, ending: () => transport.ending, leave: () => Promise.resolve() };
  }
  const transport = await httpTransport(url!, { headers, fetch: guardedFetch as typeof fetch, clock });
  return { transport, ending: () => "", leave: () => transport.terminateSession() };
}
