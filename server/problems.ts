/** Problem documents (RFC 9457): every failed answer of the API. Only this file maps failures to HTTP. */

/** Every type of problem with its status and title. */
export const PROBLEM_TYPES = {
  "invalid-request": { status: 422, title: "The request is not valid" },
  "server-declared": { status: 422, title: "Only the operator may declare this" },
  "unknown-catalog-id": { status: 422, title: "The server's catalogue has no such entry" },
  "insufficient-memory": { status: 422, title: "The memory does not suffice" },
  "unauthorized": { status: 401, title: "The request is not authorized" },
  "forbidden-path": { status: 403, title: "The path lies outside of what the server shows" },
  "not-found": { status: 404, title: "There is no such thing" },
  "conflict": { status: 409, title: "The state does not allow this" },
  "payload-too-large": { status: 413, title: "The body is too large" },
  "unsupported-media-type": { status: 415, title: "The body is of another type" },
  "method-not-allowed": { status: 405, title: "The path exists, but not for this method" },
  "device-busy": { status: 503, title: "The device is taken" },
  "timeout": { status: 504, title: "The run did not answer in time" },
  "not-implemented": { status: 501, title: "This build does not have that part" },
  "internal": { status: 500, title: "The server failed" },
} as const;

export type ProblemType = keyof typeof PROBLEM_TYPES;

/** The codes of `errors[]` that this build emits. */
export type ProblemCode = "unauthorized" | "not_found";

export interface ProblemError {
  /** JSON pointer into the request. */
  pointer: string;
  code: ProblemCode;
  message: string;
  hint?: string;
}

/** A refusal on its way to the client. */
export class Problem extends Error {
  readonly errors: readonly ProblemError[];
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    readonly type: ProblemType,
    detail: string,
    { errors = [], headers = {} }: { errors?: ProblemError[]; headers?: Record<string, string> } = {},
  ) {
    super(detail);
    this.errors = errors;
    this.headers = headers;
  }
}

export function unauthorized(detail: string): Problem {
  const errors: ProblemError[] = [{ pointer: "", code: "unauthorized", message: detail }];
  return new Problem("unauthorized", detail, { errors, headers: { "www-authenticate": "Bearer" } });
}

export function notFound(detail: string): Problem {
  return new Problem("not-found", detail, { errors: [{ pointer: "", code: "not_found", message: detail }] });
}

/** The body of a problem document. */
export function problemDocument(
  problem: Problem,
  { type_base, trace_id }: { type_base: string; trace_id: string },
): Record<string, unknown> {
  const { status, title } = PROBLEM_TYPES[problem.type];
  // "<base>/<kind>", also when the operator's base ends in a slash.
  const type = `${type_base.replace(/\/$/, "")}/${problem.type}`;
  return { type, title, status, detail: problem.message, trace_id, errors: problem.errors, meta: {} };
}
