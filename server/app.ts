/** One request to one answer, without a port: checks in the contract's order, then the route. */

import type { ServerConfig } from "../config/server.ts";
import type { Clock } from "../core/clock.ts";
import { VERSION } from "../core/version.ts";
import { callerProblem, isTokenRight } from "./auth.ts";
import { capabilities, type DeviceCard } from "./capabilities.ts";
import { notFound, Problem, PROBLEM_TYPES, problemDocument, unauthorized } from "./problems.ts";
import { allowHeader, findPath } from "./routes.ts";

export interface AppRequest {
  method: string;
  /** The request target as sent. */
  target: string;
  /** Names in lower case. */
  headers: Readonly<Record<string, string | undefined>>;
  /** Every Host header, as sent. */
  hosts: readonly string[];
}

export interface AppResponse {
  status: number;
  headers: Record<string, string>;
  /** Empty for HEAD and where there is none. */
  body: string;
}

export interface AppOptions {
  config: ServerConfig;
  clock: Clock;
  /** The port that the server listens on. */
  port: () => number;
  /** Asked at the first request for capabilities, and again after a failure. */
  probeDevices: () => Promise<DeviceCard[]>;
  /** A line of the server's log. */
  log: (line: Record<string, unknown>) => void;
}

type Answer = Omit<AppResponse, "headers"> & { headers?: Record<string, string> };

function json(value: unknown): Answer {
  return { status: 200, headers: { "content-type": "application/json" }, body: JSON.stringify(value) };
}

function plainText(status: number, text: string, headers: Record<string, string> = {}): Answer {
  return { status, headers: { "content-type": "text/plain; charset=utf-8", ...headers }, body: `${text}\n` };
}

export class App {
  readonly #options: AppOptions;
  readonly #started_ms: number;
  #devices: Promise<DeviceCard[]> | null = null;

  constructor(options: AppOptions) {
    this.#options = options;
    this.#started_ms = options.clock.monotonic_ms();
  }

  /** Answers a request; never throws. */
  async handle(request: AppRequest): Promise<AppResponse> {
    const trace_id = crypto.randomUUID();
    const pathname = pathOf(request.target);
    let answer: Answer;
    try {
      answer = isApi(pathname) ? await this.#api(request, pathname) : this.#outside(request, pathname);
    } catch (error) {
      answer = this.#failed(error, trace_id);
    }
    const { status, body, headers } = answer;
    return {
      status,
      body: request.method === "HEAD" ? "" : body,
      headers: {
        ...headers,
        ...(body ? { "content-length": String(new TextEncoder().encode(body).length) } : {}),
        "x-trace-id": trace_id,
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
      },
    };
  }

  #callerProblem({ hosts, headers, target }: AppRequest): string | null {
    const rules = { allowed_hosts: this.#options.config.allowed_hosts, port: this.#options.port() };
    return callerProblem({ hosts, origin: headers.origin, target }, rules);
  }

  async #api(request: AppRequest, pathname: string): Promise<Answer> {
    const refused = this.#callerProblem(request);
    if (refused) throw unauthorized(refused);
    const { auth_token } = this.#options.config;
    if (auth_token !== undefined && !isTokenRight(request.headers.authorization, auth_token)) {
      throw unauthorized("The request needs the header Authorization: Bearer with the server's token");
    }
    const found = findPath(pathname.slice("/v1".length));
    if (!found) throw notFound("There is no such route under /v1");
    const allow = allowHeader(found.methods);
    if (request.method === "OPTIONS") return { status: 204, headers: { allow }, body: "" };
    if (!allow.split(", ").includes(request.method)) {
      throw new Problem("method-not-allowed", `This path takes ${allow}`, { headers: { allow } });
    }
    switch (found.path) {
      case "/health":
        return json({ status: "ok", version: VERSION, uptime_seconds: this.#uptimeSeconds() });
      case "/capabilities":
        return json(await this.#capabilities());
      default:
        throw new Problem("not-implemented", "This route is in the contract and not in this build");
    }
  }

  /** Everything outside the API answers in plain text. */
  #outside(request: AppRequest, pathname: string): Answer {
    const refused = this.#callerProblem(request);
    if (refused) return plainText(401, refused, { "www-authenticate": "Bearer" });
    if (pathname !== "/healthz") return plainText(404, "There is nothing here; the API is under /v1");
    const allow = allowHeader(["GET"]);
    if (request.method === "OPTIONS") return { status: 204, headers: { allow }, body: "" };
    if (!["GET", "HEAD"].includes(request.method)) {
      return plainText(405, `This path takes ${allow}`, { allow });
    }
    return json({ status: "ok" });
  }

  #uptimeSeconds(): number {
    return Math.floor((this.#options.clock.monotonic_ms() - this.#started_ms) / 1000);
  }

  async #capabilities() {
    this.#devices ??= this.#probe();
    const ram_bytes = Deno.systemMemoryInfo().total;
    return capabilities(this.#options.config, { devices: await this.#devices, ram_bytes });
  }

  /** A probe that failed is not remembered: the next request asks again. */
  async #probe(): Promise<DeviceCard[]> {
    try {
      return await this.#options.probeDevices();
    } catch (error) {
      this.#devices = null;
      throw error;
    }
  }

  #failed(error: unknown, trace_id: string): Answer {
    const problem = error instanceof Problem
      ? error
      : new Problem("internal", "The server failed; its log has the reason under this trace_id");
    if (!(error instanceof Problem)) {
      const reason = error instanceof Error ? error.stack ?? error.message : String(error);
      this.#options.log({ level: "error", trace_id, message: reason });
    }
    const document = problemDocument(problem, {
      type_base: this.#options.config.problem_type_base,
      trace_id,
    });
    return {
      status: PROBLEM_TYPES[problem.type].status,
      headers: { ...problem.headers, "content-type": "application/problem+json" },
      body: JSON.stringify(document),
    };
  }
}

/** The path of a request target, as sent: dots and escapes stay, so that no route is reached by another name. */
function pathOf(target: string): string {
  const path = target.startsWith("/") || !URL.canParse(target) ? target : new URL(target).pathname;
  return path.split(/[?#]/)[0]!;
}

function isApi(pathname: string): boolean {
  return pathname === "/v1" || pathname.startsWith("/v1/");
}
