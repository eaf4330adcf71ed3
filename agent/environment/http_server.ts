/** The routes of an environment server: time limits, repeats where they are safe, and checked answers. */

import type { ToolCall, ToolFunction } from "../../core/chat.ts";
import { readKey } from "../../core/chat_api/endpoint.ts";
import { type Redact, redactedHead, redactJson, redactorOf } from "../../core/chat_api/redact.ts";
import type { Clock } from "../../core/clock.ts";
import { ServiceError, withDetails } from "../../core/errors.ts";
import { isJsonObject, parseJson } from "../../core/json.ts";
import { inline } from "../../core/text.ts";
import {
  AnswerProblem,
  madeEnvironment,
  type ResetAnswer,
  resetAnswer,
  type StepAnswer,
  stepAnswer,
  toolsAnswer,
} from "./http_answers.ts";
import { exchange, type ExchangeAnswer, ExchangeFailure } from "./http_exchange.ts";
import { unlessAborted } from "./unless_aborted.ts";

/** The most times that one request is sent. */
export const MAX_SENDS = 3;

/** The wait before a request is sent again; twice as long before each further time. */
export const RESEND_DELAY_MS = 200;

/** The time that a reset which is over its limit has to name its environment, which is then closed. */
export const LATE_RESET_MS = 30_000;

/** The time that the server has to close an environment. */
export const CLOSE_LIMIT_MS = 10_000;

/** The most characters of an answer in an error, and of its content type. */
export const QUOTED_CHARS = 400, QUOTED_TYPE_CHARS = 100;

/** How errors about the server's key name it. */
const SERVER_KEY = { what: "the environment server", setting: "agent.environment.api_key_env" } as const;

/** Statuses of a server that may answer the same request later. */
const UNAVAILABLE = [429, 502, 503, 504];

export interface EnvironmentServerOptions {
  /** May have a path, which is before all routes. */
  base_url: string;
  /** The environment variable with the server's key; absent: no key is sent. */
  api_key_env?: string | undefined;
  /** The limit of a request. */
  timeout_ms: number;
  clock: Clock;
}

/** A request, and when it may be sent again. */
interface ServerRequest {
  method: "GET" | "POST";
  /** The route in messages; the path when `path` is absent. */
  route: string;
  path?: string;
  body?: unknown;
  limit_ms: number;
  /** `always`: whatever happened to it; `not_sent`: when there was no connection. */
  repeat: "always" | "not_sent" | "never";
}

/**
 * An environment server. Its failures are `environment_failed`, with `details.transient`: another run may not have them.
 * Its key is read from the environment with the first request (`config_invalid` without one), and is in no error and no
 * answer.
 */
export class EnvironmentServer {
  readonly #options: EnvironmentServerOptions;
  readonly #base: URL;
  /** Null before the first request. */
  #access: { key: string | null; redact: Redact } | null = null;
  readonly #redact: Redact = (text) => this.#access?.redact(text) ?? text;
  /** The environments that were made and not yet closed, by id, each with its closing once that has begun. */
  readonly #live = new Map<string, Promise<void> | null>();
  /** Aborts when nobody waits any longer. */
  readonly #life = new AbortController();
  /** Resets and closings that may outlive their attempt. Never rejected. */
  readonly #pending = new Set<Promise<unknown>>();

  constructor(options: EnvironmentServerOptions) {
    this.#options = options;
    this.#base = new URL(options.base_url);
  }

  /** @throws {ServiceError} `environment_failed`. */
  async tools(): Promise<ToolFunction[]> {
    const { signal } = this.#life;
    const { timeout_ms: limit_ms } = this.#options;
    const request = { method: "GET", route: "/tools", limit_ms, repeat: "always" } as const;
    return this.#checked(request, toolsAnswer, await this.#json(request, signal));
  }

  /**
   * Makes an environment. The server may make it also when this gives up, so an environment that it names later is
   * closed.
   *
   * @throws {ServiceError} `environment_failed`; the signal's reason.
   */
  async reset(body: { scenario: object; seed: number }, signal: AbortSignal): Promise<ResetAnswer> {
    const { timeout_ms } = this.#options;
    const limit_ms = timeout_ms + LATE_RESET_MS;
    const request = { method: "POST", route: "/reset", body, limit_ms, repeat: "not_sent" } as const;
    const making = this.#make(request);
    try {
      return await this.#inTime(() => making, { request: { ...request, limit_ms: timeout_ms }, signal });
    } catch (error) {
      this.#outlive(making.then(({ env_id }) => this.close(env_id)));
      throw error;
    }
  }

  /** @throws {ServiceError} `environment_failed`; the signal's reason. */
  async step(env_id: string, call: ToolCall, signal: AbortSignal): Promise<StepAnswer> {
    const { timeout_ms: limit_ms } = this.#options;
    const { id, name, arguments: given } = call;
    const body = { env_id, call: { id, name, arguments: given } };
    const request = { method: "POST", route: "/step", body, limit_ms, repeat: "never" } as const;
    return this.#checked(request, stepAnswer, await this.#json(request, signal));
  }

  /** The final state; null: the server has none. @throws {ServiceError} `environment_failed`; the signal's reason. */
  async state(env_id: string, signal: AbortSignal): Promise<unknown> {
    const { timeout_ms: limit_ms } = this.#options;
    const path = `/state/${encodeURIComponent(env_id)}`;
    const request = { method: "GET", route: "/state", path, limit_ms, repeat: "always" } as const;
    const answer = await this.#send(request, signal);
    return answer.status === 404 ? null : this.#shown(this.#jsonOf(request, answer));
  }

  /** Never throws: an environment that the server cannot close is its own. A second call does nothing. */
  close(env_id: string): Promise<void> {
    if (!this.#live.has(env_id)) return Promise.resolve();
    const closing = this.#live.get(env_id) ?? this.#close(env_id);
    this.#live.set(env_id, closing);
    this.#outlive(closing);
    return closing;
  }

  async #close(env_id: string): Promise<void> {
    const request = { method: "POST", route: "/close", body: { env_id }, repeat: "not_sent" } as const;
    await this.#send({ ...request, limit_ms: CLOSE_LIMIT_MS }, this.#life.signal).catch(() => {});
    this.#live.delete(env_id);
  }

  /** Waits, at most {@link CLOSE_LIMIT_MS}, for what outlived its attempt, and then gives up all requests. */
  async end(): Promise<void> {
    const done = new AbortController();
    const late = this.#options.clock.sleep(CLOSE_LIMIT_MS, done.signal).catch(() => {});
    const all = async () => {
      while (this.#pending.size > 0) await Promise.all(this.#pending);
    };
    await Promise.race([all(), late]);
    done.abort();
    this.#life.abort(new ServiceError("cancelled", "Cannot go on: the environments are closed"));
  }

  async #make(request: ServerRequest): Promise<ResetAnswer> {
    const value = this.#jsonOf(request, await this.#send(request, this.#life.signal));
    const env_id = madeEnvironment(value);
    if (env_id !== null) {
      if (this.#live.has(env_id)) {
        throw this.#failed(
          request,
          `answered with the env_id ${JSON.stringify(env_id)} of a live environment`,
        );
      }
      this.#live.set(env_id, null);
    }
    try {
      // The server must find its own id again.
      const shown = isJsonObject(value) ? { ...value, observation: this.#shown(value.observation) } : value;
      return this.#checked(request, resetAnswer, shown);
    } catch (error) {
      if (env_id !== null) void this.close(env_id);
      throw error;
    }
  }

  /** The JSON of the answer to a request, without the key. */
  async #json(request: ServerRequest, signal: AbortSignal): Promise<unknown> {
    return this.#shown(this.#jsonOf(request, await this.#send(request, signal)));
  }

  /** A value of an answer without the key: trajectories have what the server answers. */
  #shown(value: unknown): unknown {
    return redactJson(value, this.#redact);
  }

  async #key(): Promise<string | null> {
    this.#access ??= await withDetails(
      { config_key: SERVER_KEY.setting },
      Promise.try(() => {
        const key = readKey(this.#options.api_key_env, SERVER_KEY);
        return { key, redact: redactorOf(key) };
      }),
    );
    return this.#access.key;
  }

  #outlive(work: Promise<unknown>): void {
    const settled = work.catch(() => {}).finally(() => this.#pending.delete(settled));
    this.#pending.add(settled);
  }

  /** Sends a request until there is an answer or it may not be sent again. */
  async #send(request: ServerRequest, signal: AbortSignal): Promise<ExchangeAnswer> {
    for (let sends = 1;; sends++) {
      const again = await this.#sendOnce(request, signal, sends < MAX_SENDS);
      if (again !== null) return again;
      await this.#options.clock.sleep(RESEND_DELAY_MS * 2 ** (sends - 1), signal);
    }
  }

  /** Null: there was no answer, and the request may be sent again. */
  async #sendOnce(
    request: ServerRequest,
    signal: AbortSignal,
    may_repeat: boolean,
  ): Promise<ExchangeAnswer | null> {
    const { method, route, path = route, body, repeat } = request, key = await this.#key();
    const url = new URL(this.#base);
    url.pathname = this.#base.pathname.replace(/\/+$/, "") + path;
    try {
      const answer = await this.#inTime(
        (inner) => exchange({ method, url, key, ...(body !== undefined && { body }) }, inner),
        { request, signal },
      );
      return may_repeat && repeat === "always" && UNAVAILABLE.includes(answer.status) ? null : answer;
    } catch (error) {
      if (!(error instanceof ExchangeFailure)) throw error;
      if (may_repeat && (repeat === "always" || (repeat === "not_sent" && error.not_sent))) return null;
      const fix = error.not_sent ? "; start the server, or correct agent.environment.base_url" : "";
      throw this.#failed(request, `${error.message}${fix}`);
    }
  }

  /** Settles with the work, at the request's limit, or when the signal aborts. */
  async #inTime<T>(
    work: (signal: AbortSignal) => Promise<T>,
    { request, signal }: { request: ServerRequest; signal: AbortSignal },
  ): Promise<T> {
    signal.throwIfAborted();
    const { limit_ms } = request, late = new AbortController(), done = new AbortController();
    const key = request.route === "/close"
      ? ""
      : "; raise agent.environment.limits.exec_timeout_secs, or answer sooner";
    this.#options.clock.sleep(limit_ms, done.signal).then(
      () => late.abort(this.#failed(request, `got no answer within ${limit_ms / 1000} s${key}`)),
      () => {},
    );
    const ended = AbortSignal.any([signal, late.signal]);
    try {
      return await unlessAborted(work(ended), ended);
    } finally {
      done.abort();
    }
  }

  #checked<T>(request: ServerRequest, check: (value: unknown) => T, value: unknown): T {
    try {
      return check(value);
    } catch (error) {
      if (!(error instanceof AnswerProblem)) throw error;
      throw this.#failed(request, `was answered with ${error.message}`);
    }
  }

  /** Names the server by its origin. What it said is redacted, and is no cause, which would be shown as it is. */
  #failed({ method, route }: ServerRequest, reason: string): ServiceError {
    return new ServiceError(
      "environment_failed",
      `Cannot use the environment server ${this.#base.origin}: ${method} ${route} ${this.#redact(reason)}`,
      { transient: true, config_key: "agent.environment" },
    );
  }

  /** The JSON of a successful answer. */
  #jsonOf(request: ServerRequest, { status, media_type, body }: ExchangeAnswer): unknown {
    const refuse = (reason: string) => this.#failed(request, `was answered with ${reason}`);
    const quoted = (text: string, chars: number) => inline(redactedHead(text, chars, this.#redact));
    if (status >= 300 && status < 400) throw refuse(`${status}; redirects are not followed`);
    if (status < 200 || status >= 300) {
      const text = quoted(new TextDecoder().decode(body).trim(), QUOTED_CHARS);
      throw refuse(`${status}${text === "" ? "" : `: ${text}`}`);
    }
    if (!/^application\/([\w.-]+\+)?json\s*(;|$)/i.test(media_type)) {
      const type = JSON.stringify(quoted(media_type, QUOTED_TYPE_CHARS));
      throw refuse(`the Content-Type ${type}, not application/json`);
    }
    try {
      return parseJson(new TextDecoder("utf-8", { fatal: true }).decode(body));
    } catch {
      throw refuse("something that is no JSON");
    }
  }
}
