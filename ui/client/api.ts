/** Requests to `/v1`, with the types of the API's description. */

import type { Operations, Problem } from "../../api/types.ts";
import { postFile, type Transfer } from "./file_transfer.ts";
import type { Session } from "./session.ts";

/** The operations by `METHOD /path`. */
type ByRoute = {
  [N in keyof Operations as `${Operations[N]["method"]} ${Operations[N]["path"]}`]: Operations[N];
};

/** A route as it is written in the API's description, such as `GET /v1/runs/{id}`. */
export type RouteName = keyof ByRoute;

type Json = "application/json";
type JsonOf<C> = C extends { [K in Json]: infer T } ? T : null;
type GoodStatus = 200 | 201 | 202 | 204;
type AnswersOf<R extends RouteName> = ByRoute[R]["answers"];

/** What a route answers when it succeeds. */
export type AnswerOf<R extends RouteName> = {
  [S in keyof AnswersOf<R> & GoodStatus]: JsonOf<AnswersOf<R>[S]>;
}[keyof AnswersOf<R> & GoodStatus];

type Part<R extends RouteName, K extends "params" | "query"> = ByRoute[R][K] extends Record<string, never>
  ? unknown
  : { [N in K]: ByRoute[R][K] };
type BodyOf<R extends RouteName> = JsonOf<NonNullable<ByRoute[R]["body"]>>;
type BodyPart<R extends RouteName> = undefined extends ByRoute[R]["body"] ? { body?: BodyOf<R> }
  : BodyOf<R> extends null ? unknown
  : { body: BodyOf<R> };

/** The parameters, query and body of a route, where it has them. */
export type InputOf<R extends RouteName> = Part<R, "params"> & Partial<Part<R, "query">> & BodyPart<R>;

/** What every request may have besides. */
export interface CallOptions {
  signal?: AbortSignal;
  headers?: Record<string, string>;
  /** Gets the headers of a good answer. */
  onHeaders?(headers: Headers): void;
}

/** The server answered with a problem. */
export class ApiProblem extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail);
    this.name = "ApiProblem";
  }

  /** The end of the problem's type, such as `not-found`. */
  get kind(): string {
    return this.problem.type.slice(this.problem.type.lastIndexOf("/") + 1);
  }
}

/** The server could not be reached, or its answer broke off. */
export class Unreachable extends Error {
  constructor(cause: unknown) {
    super("The server does not answer", { cause });
    this.name = "Unreachable";
  }
}

/** Anything that goes with a request of this page. */
export interface ApiOptions {
  session: Session;
  /** The page's address: the API lies beside it, also under a path prefix. */
  page: string;
  fetch?: typeof fetch;
}

interface Given {
  params?: Record<string, string | number>;
  query?: Record<string, unknown>;
  body?: unknown;
}

/** The path and query of a request, relative to the page's folder. */
function targetOf(path: string, { params = {}, query = {} }: Given): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(params[name])));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) search.append(name, String(value));
  }
  return `.${filled}${search.size > 0 ? `?${search}` : ""}`;
}

/** Asks the server. */
export class Api {
  readonly #options: Required<ApiOptions>;

  constructor(options: ApiOptions) {
    this.#options = { fetch: (input, init) => fetch(input, init), ...options };
  }

  /**
   * Calls a route and returns its JSON; null where it has none.
   *
   * @throws {ApiProblem} When the answer is a problem.
   * @throws {Unreachable} When there is no whole answer.
   */
  async call<R extends RouteName>(
    route: R,
    input: InputOf<R> & CallOptions,
  ): Promise<AnswerOf<R>> {
    const [method, path] = route.split(" ") as [string, string], given = input as Given & CallOptions;
    const has_body = given.body !== undefined;
    const response = await this.open(targetOf(path, given), {
      method,
      headers: { ...(has_body && { "content-type": "application/json" }), ...given.headers },
      ...(has_body && { body: JSON.stringify(given.body) }),
      ...(given.signal && { signal: given.signal }),
    });
    given.onHeaders?.(response.headers);
    try {
      const is_json = response.headers.get("content-type")?.startsWith("application/json") ?? false;
      return (is_json ? await response.json() : (await response.body?.cancel(), null)) as AnswerOf<R>;
    } catch (error) {
      throw given.signal?.aborted ? error : new Unreachable(error);
    }
  }

  /**
   * Opens an answer of any type, such as a stream. A token in `init.headers` takes the place of the session's, which is
   * then not refused with it.
   *
   * @throws As {@link call}.
   */
  async open(target: string, init: RequestInit = {}): Promise<Response> {
    const { page, fetch } = this.#options, headers = this.#headers(init.headers);
    return await this.#answer(() => fetch(new URL(target, page), { ...init, headers }), {
      signal: init.signal,
      is_trial: new Headers(init.headers).has("authorization"),
    });
  }

  /** Posts a file, and tells meanwhile how much of it is sent. @throws As {@link call}. */
  async sendFile(
    target: string,
    file: Blob,
    { headers, signal, onProgress }: Omit<Transfer, "headers"> & { headers: Record<string, string> },
  ): Promise<Response> {
    const url = new URL(target, this.#options.page), transfer = { headers: this.#headers(headers), signal };
    return await this.#answer(() => postFile(url, file, { ...transfer, onProgress }), { signal });
  }

  #headers(given: HeadersInit | undefined): Headers {
    const headers = new Headers(given), token = this.#options.session.token.value;
    if (token !== null && !headers.has("authorization")) headers.set("authorization", `Bearer ${token}`);
    return headers;
  }

  /** A good answer. @throws As {@link call}. */
  async #answer(
    ask: () => Promise<Response>,
    { signal, is_trial = false }: { signal?: AbortSignal | null | undefined; is_trial?: boolean },
  ): Promise<Response> {
    let response: Response;
    try {
      response = await ask();
    } catch (error) {
      throw signal?.aborted ? error : new Unreachable(error);
    }
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status === 401 && !is_trial) this.#options.session.refuse();
    throw new ApiProblem(problem);
  }
}

/** The problem of an answer; one is made of an answer that has none, as of a proxy in between. */
async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => "");
  try {
    if (response.headers.get("content-type")?.includes("json")) return JSON.parse(text);
  } catch { /* it is not the server's */ }
  return {
    type: "about:blank/internal",
    title: response.statusText || "Error",
    status: response.status,
    detail: `The answer has status ${response.status} and is not the server's own`,
    trace_id: response.headers.get("x-trace-id") ?? "",
    errors: [],
    meta: {},
  };
}

/** The most items that a list answers at once. */
export const PAGE_ITEMS = 500;

/** All pages of a list. @param page Asks for one of them. */
export async function allPages<P extends { next_cursor: string | null }>(
  page: (query: { limit: number; cursor?: string }) => Promise<P>,
): Promise<P[]> {
  const pages = [await page({ limit: PAGE_ITEMS })];
  for (let cursor = pages[0]!.next_cursor; cursor !== null; cursor = pages.at(-1)!.next_cursor) {
    pages.push(await page({ limit: PAGE_ITEMS, cursor }));
  }
  return pages;
}
