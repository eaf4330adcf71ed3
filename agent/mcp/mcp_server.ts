/** The tools of an MCP server as a host of tools. */

import type { ExpandedMcpServer } from "../../config/check/mcp_config.ts";
import type { ToolCall, ToolFunction } from "../../core/chat.ts";
import { type Redact, redactedHead, redactJson, redactorOf } from "../../core/chat_api/redact.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError } from "../../core/errors.ts";
import { inline } from "../../core/text.ts";
import { unlessAborted } from "../environment/unless_aborted.ts";
import { type CallAnswer, shortName, type ToolHost, type ToolHostFactory } from "../tools/tool_host.ts";
import { resultText } from "./call_result.ts";
import { type OfferedTool, offeredTools } from "./offered_tools.ts";
import type { ListedTool } from "./sdk.ts";
import { Session } from "./session.ts";
import type { Misstep, Notice } from "./transport.ts";

/** After so many failures without an answered call in between, a server is not started again. */
export const MAX_FAILURES = 5;

/** The wait before a server is started again, which doubles with each further failure in a row. */
export const RESTART_DELAY_MS = 1000;

/** The longest reason in a message. */
export const MAX_REASON_CHARS = 1000;

/** What a host needs besides its server. */
export interface McpHostOptions {
  clock: Clock;
  /** The time that a call may take, with a start of the server that it waits for. */
  call_timeout_ms: number;
  workspaces?: string | undefined;
  /** Receives messages for the run's log. */
  report(message: string): void;
}

/** The result of a call to an optional server that is gone. */
const GONE = "error: the tool is not available";

/**
 * The tools of a server. A stateless one has one session for all attempts, which is opened again when it broke; any
 * other has a session for each attempt. After a failure the next start waits, and after {@link MAX_FAILURES} in a row
 * there is none. Without a server that is not required, a catalogue lacks its tools, and calls say that it is gone.
 */
export class McpServerHost implements ToolHostFactory {
  readonly name: string;
  readonly prefix: string;
  readonly #server: ExpandedMcpServer;
  readonly #options: McpHostOptions;
  readonly #redact: Redact;
  readonly #life = new AbortController();
  readonly #open = new Set<Session>();
  readonly #told = new Set<Misstep>();
  /** Sessions whose failure was counted: all calls that wait in one fail with it. */
  readonly #failed_sessions = new WeakSet<Session>();
  #tools: readonly OfferedTool[] = [];
  #shared: Promise<Session> | null = null;
  /** In a row. */
  #failures = 0;
  #last_reason = "";

  constructor(server: ExpandedMcpServer, options: McpHostOptions) {
    this.#server = server;
    this.#options = options;
    this.#redact = redactorOf(server.secrets);
    this.name = `the MCP server ${JSON.stringify(server.name)}`;
    this.prefix = shortName(server.name);
  }

  async list(signal: AbortSignal): Promise<readonly ToolFunction[]> {
    try {
      const session = await this.#session(signal);
      try {
        const listed = redactJson(await session.list(signal), this.#redact) as ListedTool[];
        this.#tools = offeredTools(listed, this.#server, (text) => this.#tell("names", text));
      } finally {
        if (!this.#server.stateless) await this.#leave(session);
      }
    } catch (error) {
      if (this.#server.required || this.#life.signal.aborted) throw this.#failure("list the tools of", error);
      this.#tellGone(error);
      this.#tools = [];
    }
    return this.#tools.map(({ tool }) => tool);
  }

  async open(signal: AbortSignal): Promise<ToolHost> {
    if (this.#tools.length === 0) return new McpHost(this, null);
    const session = await this.#sessionOrGone(signal);
    const own = this.#server.stateless ? null : session;
    return new McpHost(this, own, own ? () => this.#leave(own) : undefined);
  }

  readonly close = async (): Promise<void> => {
    this.#life.abort(new ServiceError("cancelled", "Cannot go on: the tool hosts are closed"));
    await this.#shared?.catch(() => {});
    await Promise.all([...this.#open].map((session) => session.close()));
  };

  /**
   * Calls a tool.
   *
   * @param own The attempt's session; null: the shared one.
   * @throws {ServiceError} `tool_failed`, `environment_failed` without a required server; both with
   * `details.transient`, because nothing says that the server fails again in another run.
   */
  async call(call: ToolCall, own: Session | null, signal: AbortSignal): Promise<CallAnswer> {
    const { clock, call_timeout_ms } = this.#options;
    const late = new AbortController(), done = new AbortController();
    const reason = new Error(`it gave no answer within ${call_timeout_ms / 1000} s`);
    const failure = this.#failure(`call ${JSON.stringify(call.name)} of`, reason, "tool_failed");
    clock.sleep(call_timeout_ms, done.signal).then(() => late.abort(failure), () => {});
    try {
      return await this.#call(call, own, AbortSignal.any([signal, late.signal]));
    } catch (error) {
      // Whatever broke because the time was up.
      throw late.signal.aborted && !signal.aborted ? failure : error;
    } finally {
      done.abort();
    }
  }

  async #call(
    { name, arguments: args }: ToolCall,
    own: Session | null,
    signal: AbortSignal,
  ): Promise<CallAnswer> {
    const answer = (result: string): CallAnswer => ({ result, reward: null, done: false });
    const offered = this.#tools.find(({ tool }) => tool.name === name)!;
    const session = own ?? (this.#server.stateless ? await this.#sessionOrGone(signal) : null);
    if (!session) return answer(GONE);
    try {
      const outcome = await session.call({ name: offered.name, arguments: args }, signal);
      this.#failures = 0;
      return answer(resultText(outcome, this.#redact));
    } catch (error) {
      if (!signal.aborted) this.#sessionFailed(session, error);
      throw this.#failure(`call ${JSON.stringify(name)} of`, error, "tool_failed");
    }
  }

  /** A session; null when an optional server has none. @throws {ServiceError} `environment_failed`. */
  async #sessionOrGone(signal: AbortSignal): Promise<Session | null> {
    try {
      return await this.#session(signal);
    } catch (error) {
      signal.throwIfAborted();
      if (this.#server.required || this.#life.signal.aborted) throw this.#failure("start", error);
      this.#tellGone(error);
      return null;
    }
  }

  /** The shared session, or one of the caller's own. */
  async #session(signal: AbortSignal): Promise<Session> {
    if (!this.#server.stateless) return await this.#start(signal);
    const known = this.#shared, shared = await known?.catch(() => null);
    if (shared && this.#shared === known && (!shared.is_open || shared.may_hang)) {
      this.#shared = null;
      if (shared.is_open) this.#sessionFailed(shared, new Error("it gave no answer in time"));
      await shared.retire();
    }
    if (!this.#shared) {
      const starting = this.#start(this.#life.signal);
      this.#shared = starting;
      starting.catch(() => {
        if (this.#shared === starting) this.#shared = null;
      });
    }
    // One caller that stops waiting does not end the start that others wait for.
    return await unlessAborted(this.#shared, signal);
  }

  async #start(signal: AbortSignal): Promise<Session> {
    const { clock, workspaces } = this.#options;
    const ended = AbortSignal.any([signal, this.#life.signal]);
    if (this.#failures >= MAX_FAILURES) {
      throw new Error(`it failed ${MAX_FAILURES} times in a row, at last: ${this.#last_reason}`);
    }
    if (this.#failures > 0) await clock.sleep(RESTART_DELAY_MS * 2 ** (this.#failures - 1), ended);
    const notice: Notice = (about, text) => this.#tell(about, text), redact = this.#redact;
    try {
      const session = await Session.open(this.#server, { clock, workspaces, notice, redact }, ended);
      for (const old of this.#open) if (old.is_closed) this.#open.delete(old);
      this.#open.add(session);
      // The host may have closed meanwhile.
      if (this.#life.signal.aborted) await this.#leave(session);
      return session;
    } catch (error) {
      if (!ended.aborted) this.#failed(error);
      throw error;
    }
  }

  async #leave(session: Session): Promise<void> {
    await session.close();
    this.#open.delete(session);
  }

  #sessionFailed(session: Session, error: unknown): void {
    if (this.#failed_sessions.has(session)) return;
    this.#failed_sessions.add(session);
    this.#failed(error);
  }

  #failed(error: unknown): void {
    this.#failures++;
    this.#last_reason = this.#reasonOf(error);
  }

  #reasonOf(error: unknown): string {
    const text = error instanceof Error ? error.message : String(error);
    const shown = inline(redactedHead(text, MAX_REASON_CHARS, this.#redact));
    return text.length > MAX_REASON_CHARS ? `${shown}…` : shown;
  }

  #failure(
    what: string,
    error: unknown,
    failed: "environment_failed" | "tool_failed" = "environment_failed",
  ) {
    if (error instanceof ServiceError && error.code === "cancelled") return error;
    const is_infrastructure = error instanceof ServiceError && error.code === "infrastructure_failed";
    const code = is_infrastructure ? error.code : failed;
    const message = `Cannot ${what} ${this.name}: ${this.#reasonOf(error)}`;
    return new ServiceError(code, message, { transient: true });
  }

  #tellGone(error: unknown): void {
    this.#tell("gone", `the run goes on without its tools: ${this.#reasonOf(error)}`);
  }

  /** Reports each misstep once. */
  #tell(about: Misstep, text: string): void {
    if (this.#told.has(about)) return;
    this.#told.add(about);
    this.#options.report(`${this.name}: ${inline(this.#redact(text))}`);
  }
}

/** The tools of a server for one attempt. */
class McpHost implements ToolHost {
  readonly #server: McpServerHost;
  readonly #own: Session | null;
  readonly #leave: () => Promise<void>;
  #left: Promise<void> | null = null;

  constructor(server: McpServerHost, own: Session | null, leave = () => Promise.resolve()) {
    this.#server = server;
    this.#own = own;
    this.#leave = leave;
  }

  call(call: ToolCall, signal: AbortSignal): Promise<CallAnswer> {
    return this.#server.call(call, this.#own, signal);
  }

  close(): Promise<void> {
    return this.#left ??= this.#leave();
  }
}
