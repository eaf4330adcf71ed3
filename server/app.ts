/** Answers requests, without a port: it makes the checks in the contract's order, then calls the route's handler. */

import { join } from "node:path";
import type { ServerConfig } from "../config/server/schema.ts";
import type { Clock } from "../core/clock.ts";
import { type LogLine, withTrace } from "../core/log.ts";
import { DatasetStore } from "../runs/datasets/dataset_store.ts";
import type { Fleet } from "../runs/fleet/fleet.ts";
import type { Serving } from "../runs/serving/serving.ts";
import type { FleetChange } from "../runs/fleet/run_lifecycle.ts";
import type { JobRunner } from "../runs/jobs/job_table.ts";
import { ObservedRuns } from "../runs/views/observed_runs.ts";
import { serverFolders } from "./access/server_folders.ts";
import { callerProblem, isTokenRight } from "./access/auth.ts";
import { headerErrors, openBody, readBody } from "./routing/body.ts";
import { ModelFiles } from "./sources/model_files.ts";
import { Checksums } from "../runs/results/content.ts";
import { MeasuredTexts } from "../runs/results/changed_lines.ts";
import { Links } from "./access/links.ts";
import { openApiDocument } from "./routing/openapi.ts";
import type { OpenApiDocument } from "./routing/openapi_schema.ts";
import { invalidRequest, notFound, Problem, problemDocument, unauthorized } from "./http/problems.ts";
import { PROBLEM_TYPES } from "./http/problem_types.ts";
import { readQuery } from "./http/query.ts";
import { HTML_HEADERS } from "./http/html.ts";
import { interfaceAnswer, type InterfaceFiles } from "./http/interface_files.ts";
import { pathsIn, Redactor } from "./http/redact.ts";
import { shown, shownEvents } from "./http/shown.ts";
import { jobsOrBusy } from "./resources/job_problems.ts";
import {
  type Answer,
  type AnswerSpec,
  isApi,
  jsonBytes,
  JsonPieces,
  type Method,
  type Route,
} from "./routing/route.ts";
import { ROUTES } from "./route_table.ts";
import { decodeSegments, type FoundPath, Router, splitTarget } from "./routing/router.ts";
import { NO_RUNS, type RunSource } from "./sources/run_source.ts";
import type { Availability, ProbedDevice, Services } from "./routing/services.ts";
import { type Database, openDatabase } from "./store/database.ts";
import { FleetEvents } from "./store/fleet_events.ts";
import { followFleet } from "./store/follow_fleet.ts";
import { RunIndex } from "./store/run_index.ts";
import { CLIENT_DISCONNECTED, RequestWatch, type WatchedRequest } from "./telemetry/request_watch.ts";
import {
  activeSpan,
  nameSpan,
  newTraceId,
  otelTraceId,
  type Span,
  TRACE_ATTRIBUTE,
} from "./telemetry/trace.ts";
import { WatchedJobs } from "./telemetry/watched_jobs.ts";

/** Parts of the original request that a `Request` does not keep. */
export interface RequestContext {
  /** The method as sent: `Request` does not support TRACE and changes the case of some methods. */
  method: string;
  /** The request target as sent; a URL normalises dots and escapes. */
  target: string;
  /** All Host headers. */
  hosts: readonly string[];
  /** The client's address, for the log only. */
  peer: string;
  /** The span of a listener that does not make it the active one. */
  span?: Span | null;
}

export interface AppOptions {
  config: ServerConfig;
  clock: Clock;
  /** The port that the server listens on. */
  port: () => number;
  /** Called at the first request for capabilities, and again after a failure. */
  probeDevices: () => Promise<ProbedDevice[]>;
  probeContainers?: () => Promise<Availability>;
  /** The device for which runs are planned on a machine without one; absent: plans are refused there. */
  assumed_device?: ProbedDevice;
  /** Runs long or hostile work outside of this thread; absent: routes that need it fail. */
  jobs?: JobRunner;
  /** Whether a live run uses a dataset; absent: none does. */
  isDatasetInUse?: (id: string) => Promise<boolean>;
  /** Writes a line of the server's log. */
  log: (line: LogLine) => void;
  /** Gets a line for each request at its end; absent: they are not logged. */
  logRequest?: (line: LogLine) => void;
  /** Absent: no runs. */
  runs?: RunSource;
  /** Absent: none are remembered yet. */
  trajectories?: ObservedRuns;
  /** Creates and commands runs; absent: none. */
  fleet?: Fleet;
  /** Answers chats; absent: serving is off. */
  serving?: Serving;
  /** The web interface; absent: this build has none. */
  interface_files?: InterfaceFiles | null;
  /** The changes of its runs, of which this is the only reader; absent: they are not published. */
  changes?: AsyncIterable<FleetChange>;
  /** Absent: one in memory. */
  database?: Database;
  /** The table of routes; absent: {@link ROUTES}. */
  routes?: readonly Route[];
}

const NO_JOBS: JobRunner = { run: () => Promise.reject(new Error("this server runs no jobs")) };

const INCOMPLETE_SEARCH =
  "GET /v1/model-files does not list all files: a limit of the search was reached (docs/reference/api.md); name " +
  "folders in path_roots that hold fewer other files";

/** The state of a request during the checks. */
interface Exchange {
  request: Request;
  context: RequestContext;
  path: string;
  search: string;
  trace_id: string;
  span: Span | null;
  watched: WatchedRequest;
  /** Null until it is found. */
  route: Route | null;
  /** Removes the machine's paths from the answer; null when they may be shown. */
  redactor: Redactor | null;
}

/**
 * The server without its listener: the table of routes, the configuration and the checks.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseServerConfig } from "../config/server/load.ts";
 * import { systemClock } from "../core/clock.ts";
 *
 * const app = new App({
 *   config: parseServerConfig("", { path: "server.toml" }),
 *   clock: systemClock,
 *   port: () => 8471,
 *   probeDevices: () => Promise.resolve([]),
 *   log: () => {},
 * });
 * const request = new Request("http://localhost:8471/healthz");
 * const context = { method: "GET", target: "/healthz", hosts: ["localhost:8471"], peer: "127.0.0.1:1" };
 * assert.equal((await app.handle(request, context)).status, 200);
 * ```
 */
export class App {
  readonly #options: AppOptions;
  readonly #router: Router;
  readonly #services: Services;
  readonly #watch: RequestWatch;
  readonly #interface: InterfaceFiles | null;
  #devices: Promise<ProbedDevice[]> | null = null;
  #folders: readonly string[] | null = null;
  /** Resolves when the fleet is closed and all its changes are stored. */
  readonly ended: Promise<void>;

  constructor(options: AppOptions) {
    const { config, clock, log, routes = ROUTES, runs = NO_RUNS, logRequest = () => {} } = options;
    const { trajectories = new ObservedRuns(), database = openDatabase(null, options) } = options;
    const began_ms = clock.monotonic_ms();
    let document: OpenApiDocument | null = null;
    this.#options = options;
    this.#router = new Router(routes);
    this.#interface = config.ui ? options.interface_files ?? null : null;
    this.#watch = new RequestWatch({ clock, log: logRequest });
    const watched = new WatchedJobs({ jobs: options.jobs ?? NO_JOBS, clock, log });
    const jobs = jobsOrBusy(watched);
    this.#services = {
      config,
      clock,
      started_ms: clock.wall_ms(),
      uptimeSeconds: () => Math.floor((clock.monotonic_ms() - began_ms) / 1000),
      runs,
      trajectories,
      ...{ fleet: options.fleet ?? null, serving: options.serving ?? null },
      assumed_device: options.assumed_device ?? null,
      has_interface: this.#interface !== null,
      database,
      fleet_events: new FleetEvents(database, clock),
      index: new RunIndex(database),
      links: new Links(clock),
      checksums: new Checksums(),
      measured_texts: new MeasuredTexts(),
      newRedactor: () => this.#redactor(),
      devices: () => this.#devices ??= this.#probe(),
      containers: options.probeContainers ?? (() => Promise.resolve(null)),
      openApi: () => document ??= openApiDocument(routes),
      jobs,
      telemetry: [() => this.#watch.families(), () => watched.families()],
      openRequests: (route) => this.#watch.open(route),
      datasets: new DatasetStore({
        folder: join(config.data_dir, "datasets"),
        clock,
        check: (request, signal) => jobs.run("check_dataset", request, signal),
        unreadable: (id, reason) => log({ level: "error", message: `Cannot list ${id}: ${reason}` }),
      }),
      isDatasetInUse: options.isDatasetInUse ?? (() => Promise.resolve(false)),
      model_files: new ModelFiles({
        ...{ roots: config.path_roots, jobs },
        incomplete: () => log({ level: "warning", message: INCOMPLETE_SEARCH }),
      }),
    };
    const { fleet, changes } = options, { fleet_events: events, index } = this.#services;
    this.ended = fleet && changes ? followFleet({ fleet, changes, events, index, log }) : Promise.resolve();
    // This is slow after a large run was deleted, and nothing depends on it.
    index.clean().catch((error) => log({ level: "error", message: String(error) }));
  }

  /** Answers a request; never rejects. The answer's body may still be streaming and can fail later. */
  async handle(request: Request, context: RequestContext): Promise<Response> {
    const span = context.span ?? activeSpan();
    const trace_id = newTraceId(), otel_trace_id = otelTraceId({ headers: request.headers, span });
    span?.setAttribute(TRACE_ATTRIBUTE, trace_id);
    const target = splitTarget(context.target), { method, peer } = context;
    const watched = this.#watch.start({ method, path: target.path, peer, trace_id, otel_trace_id });
    const redactor = this.#redactor();
    const exchange: Exchange = {
      request,
      context,
      ...target,
      trace_id,
      span,
      watched,
      route: null,
      redactor,
    };
    return await withTrace(trace_id, () => this.#answer(exchange));
  }

  async #answer(exchange: Exchange): Promise<Response> {
    const { request, context, trace_id, watched } = exchange;
    let answer: Answer, content: Content;
    try {
      answer = await this.#respond(exchange);
      content = contentOf(answer, exchange);
    } catch (error) {
      answer = this.#failed(error, exchange);
      content = contentOf(answer, exchange);
    }
    const { status } = answer, { headers, body } = content;
    watched.shortened = () => exchange.redactor?.found ?? [];
    headers.set("x-trace-id", trace_id);
    headers.set("x-content-type-options", "nosniff");
    if (!headers.has("cache-control")) headers.set("cache-control", "no-store");
    const seen = request.signal.aborted ? CLIENT_DISCONNECTED : status;
    if (body instanceof ReadableStream && context.method !== "HEAD") {
      return new Response(watched.streams(seen, body), { status, headers });
    }
    if (body instanceof ReadableStream) await body.cancel().catch(() => {});
    const bytes = context.method === "HEAD" ? null : body as Uint8Array<ArrayBuffer> | null;
    watched.sends(seen, bytes?.length ?? 0);
    return new Response(bytes, { status, headers });
  }

  async #respond(exchange: Exchange): Promise<Answer> {
    const { request, path, context, span, watched } = exchange;
    const found = this.#router.find(path);
    // A refused request counts for its route too.
    if (found) {
      watched.route = found.pattern;
      if (span) nameSpan(span, { method: context.method, route: found.pattern });
    }
    this.#admit(exchange);
    if (!found) {
      const file = await interfaceAnswer(this.#interface, { path, method: context.method, request });
      if (!file) throw notFound(missingText(path));
      return file;
    }
    const { allow, routes } = found;
    if (context.method === "OPTIONS") return { status: 204, headers: { allow } };
    const route = routes.get((context.method === "HEAD" ? "GET" : context.method) as Method);
    if (!route) throw new Problem("method-not-allowed", `This path takes ${allow}`, { headers: { allow } });
    return await this.#call(route, found, exchange);
  }

  /** Checks the caller, and the token or the signed link. @throws {Problem} `unauthorized`. */
  #admit({ request, context, path, search }: Exchange): void {
    const { config, port } = this.#options;
    const { headers } = request;
    const { hosts, method, target } = context;
    const origin = headers.get("origin") ?? undefined,
      fetch_site = headers.get("sec-fetch-site") ?? undefined;
    const refused = callerProblem({ hosts, origin, method, fetch_site, target }, {
      ...{ allowed_hosts: config.allowed_hosts, bind: config.bind, port: port() },
    });
    if (refused) throw unauthorized(refused);
    if (!isApi(path) || config.auth_token === undefined) return;
    if (isTokenRight(headers.get("authorization") ?? undefined, config.auth_token)) return;
    if (this.#services.links.admits({ method: context.method, path, search })) return;
    throw unauthorized("The request needs the header Authorization: Bearer with the server's token");
  }

  async #call(route: Route, { params }: FoundPath, exchange: Exchange): Promise<Answer> {
    const { request, search, trace_id } = exchange;
    exchange.route = route;
    const services = this.#services;
    const off = route.offReason?.(services) ?? null;
    if (off !== null) throw new Problem("not-implemented", off);
    const found = await route.find?.(params, services);
    const takes_body = route.method === "POST" || route.method === "PATCH";
    const spec = route.body ?? null;
    const open = takes_body ? openBody(request, spec, services.config) : null;
    const { body, errors: body_errors } = await readBody(open, spec, services);
    // Paths outside the API have no parameters to check.
    const { query, errors: query_errors } = readQuery(isApi(route.path) ? search : "", route.query);
    if (exchange.redactor) exchange.redactor = this.#redactor(pathsIn([query, body]));
    const errors = [...headerErrors(request.headers, route.headers), ...query_errors, ...body_errors];
    if (errors.length > 0) throw invalidRequest(errors);
    return await route.handler({ request, params, query, body, found, trace_id, services });
  }

  /** @param paths Those that the client wrote. */
  #redactor(paths: readonly string[] = []): Redactor | null {
    const { config } = this.#options;
    if (!config.redact_error_paths) return null;
    this.#folders ??= serverFolders(config);
    return new Redactor(this.#folders, paths);
  }

  /** A failed probe is not cached: the next request tries again. */
  async #probe(): Promise<ProbedDevice[]> {
    try {
      return await this.#options.probeDevices();
    } catch (error) {
      this.#devices = null;
      throw error;
    }
  }

  #failed(error: unknown, exchange: Exchange): Answer {
    const { request, context, path, trace_id, redactor } = exchange;
    const problem = error instanceof Problem
      ? error
      : new Problem("internal", "The server failed; its log has the reason under this trace_id");
    // Errors after the client has disconnected are ignored.
    if (!(error instanceof Problem) && !request.signal.aborted) {
      const message = error instanceof Error ? error.stack ?? error.message : String(error);
      const { method, peer } = context;
      this.#options.log({ level: "error", trace_id, method, path, peer, message });
    }
    const { status } = PROBLEM_TYPES[problem.type];
    if (!isApi(path)) {
      const content_type = "text/plain; charset=utf-8", text = `${problem.message}\n`;
      return { status, content_type, body: redactor?.text(text) ?? text, headers: problem.headers };
    }
    const type_base = this.#options.config.problem_type_base;
    const routes = this.#router.find(path)?.routes.values() ?? [];
    const has_openai_error = [...routes].some((route) => route.has_openai_error);
    const full = problemDocument(problem, { type_base, trace_id, has_openai_error });
    const body = JSON.stringify(redactor?.problem(full) ?? full);
    return { status, content_type: "application/problem+json", body, headers: problem.headers };
  }
}

/** The headers and the body of an answer. */
interface Content {
  headers: Headers;
  body: Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array<ArrayBuffer>> | null;
}

/**
 * The headers and body of an answer: JSON as text, and a length for complete bodies. A problem needs no declaration, and
 * its paths have been removed already.
 */
function contentOf(
  { status, content_type, body = null, headers = {} }: Answer,
  { route, redactor }: Exchange,
): Content {
  const spec: AnswerSpec | undefined = route?.answers[status];
  const all = new Headers(content_type === "text/html" ? { ...HTML_HEADERS, ...headers } : headers);
  if (content_type !== undefined && !all.has("content-type")) all.set("content-type", content_type);
  if (body instanceof JsonPieces) {
    const stream = body.stream(({ value, schema }) => redactor ? shown(value, schema, redactor) : value);
    return { headers: all, body: stream };
  }
  const schema = spec?.content?.[content_type ?? ""];
  if (redactor && schema && content_type === "text/event-stream" && body instanceof ReadableStream) {
    return { headers: all, body: body.pipeThrough(shownEvents(spec.events ?? {}, redactor)) };
  }
  const is_json = content_type === "application/json";
  if (!is_json && typeof body !== "string") {
    return { headers: all, body: new Response(body as BodyInit | null).body };
  }
  const bytes = is_json
    ? jsonBytes(redactor && schema ? shown(body, schema, redactor) : body)
    : new TextEncoder().encode(body as string);
  all.set("content-length", String(bytes.length));
  return { headers: all, body: bytes };
}

function missingText(path: string): string {
  if (!isApi(path)) return "There is nothing here; the API is under /v1";
  return decodeSegments(path)
    ? "There is no such route under /v1"
    : "The path's percent-encoding is malformed";
}
