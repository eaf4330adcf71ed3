/** Problem documents (RFC 9457): all failed answers of the API. Only this file maps failures to HTTP. */

import { z } from "zod";
import { MAX_LISTED_PROBLEMS, MAX_PROBLEM_CHARS } from "../../config/text/problems.ts";
import type { ErrorCode, ServiceError } from "../../core/errors.ts";
import { LEVER_NAMES } from "../../runs/plan/levers.ts";
import {
  ALL_PROBLEM_TYPES,
  PROBLEM_CODES,
  PROBLEM_TYPES,
  type ProblemCode,
  type ProblemType,
} from "./problem_types.ts";

/** The problems that a route may answer with: types, each with the codes of its entries. */
export type DeclaredProblems = Readonly<Partial<Record<ProblemType, readonly ProblemCode[]>>>;

/** An entry of `errors[]`. */
const problemErrorSchema = z.strictObject({
  pointer: z.string().meta({
    description:
      "JSON pointer into the body; /path/<name> or /query/<name> for a parameter; empty for all of it.",
  }),
  code: z.enum(PROBLEM_CODES),
  message: z.string(),
  hint: z.string().optional().meta({ description: "Only where there is a short answer." }),
}).meta({ id: "ProblemError", description: "What is wrong with a place of the request." });

export type ProblemError = z.output<typeof problemErrorSchema>;

/** The `error` object, which OpenAI's clients show. */
export const openAiErrorSchema = z.strictObject({
  message: z.string(),
  type: z.enum(["invalid_request_error", "authentication_error", "server_error"]),
  param: z.string().nullable().meta({ description: "The field of the first problem, with dots." }),
  code: z.string().meta({ description: "The code of the first problem, else the kind." }),
}).meta({ id: "OpenAiError", description: "In the answers of the OpenAI-compatible routes." });

const bytes = z.int().gte(0);

/** The `meta` of `insufficient-memory`. No other type has one. */
export const memoryMetaSchema = z.strictObject({
  overflow_bytes: bytes.meta({
    description: "The bytes above the budgets; 0 when a single tensor is too large for the device.",
  }),
  vram_budget_bytes: bytes.meta({
    description: "0 when the device does not tell the size of its memory: nothing is compared with it then.",
  }),
  ram_budget_bytes: bytes,
  dominant_posts: z.array(z.strictObject({ post: z.string(), bytes })).meta({
    description: "The largest of the memory that is short.",
  }),
  levers_applied: z.array(z.enum(LEVER_NAMES)).meta({ description: "Empty for a complete configuration." }),
  unlocks: z.array(z.enum(["truncate_context"])).meta({
    description: "Degradations, not yet allowed, that would make it fit.",
  }),
}).meta({ id: "InsufficientMemory" });

/** The problem document of every failed answer. */
export const problemSchema = z.strictObject({
  type: z.string().regex(new RegExp(`/(${ALL_PROBLEM_TYPES.join("|")})$`)).meta({
    description: "problem_type_base of the server, a slash, and the kind.",
    format: "uri",
  }),
  title: z.string(),
  status: z.int().gte(400).lte(599),
  detail: z.string(),
  trace_id: z.string().meta({ description: "Equal to the header X-Trace-Id, and in every line of the log." }),
  errors: z.array(problemErrorSchema),
  meta: z.union([memoryMetaSchema, z.strictObject({})]).meta({
    description: "Belongs to the type: insufficient-memory has one, others an empty one.",
  }),
  error: openAiErrorSchema.optional(),
}).meta({ id: "Problem", description: "Why a request was refused or failed." });

export type ProblemDocument = z.output<typeof problemSchema>;

/** An error that becomes a problem document. */
export class Problem extends Error {
  readonly errors: readonly ProblemError[];
  readonly headers: Readonly<Record<string, string>>;
  readonly meta: ProblemDocument["meta"];

  constructor(
    readonly type: ProblemType,
    detail: string,
    { errors = [], headers = {}, meta = {} }: {
      errors?: readonly ProblemError[];
      headers?: Record<string, string>;
      meta?: ProblemDocument["meta"];
    } = {},
  ) {
    super(shortened(detail, 2 * MAX_PROBLEM_CHARS));
    this.errors = errors.slice(0, MAX_LISTED_PROBLEMS).map(shortEntry);
    this.headers = headers;
    this.meta = meta;
  }
}

/** Cuts a text with `…` to a number of characters, because a name in a request may have megabytes. */
function shortened(text: string, most = MAX_PROBLEM_CHARS): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}

function shortEntry({ pointer, code, message, hint }: ProblemError): ProblemError {
  const short = { pointer: shortened(pointer), code, message: shortened(message) };
  return hint === undefined ? short : { ...short, hint: shortened(hint) };
}

export function unauthorized(detail: string): Problem {
  const errors: ProblemError[] = [{ pointer: "", code: "unauthorized", message: detail }];
  return new Problem("unauthorized", detail, { errors, headers: { "www-authenticate": "Bearer" } });
}

/** @param pointer `/path/<name>` of the parameter, or the field of the body that names the missing resource. */
export function notFound(detail: string, pointer = ""): Problem {
  return new Problem("not-found", detail, { errors: [{ pointer, code: "not_found", message: detail }] });
}

/** A conflict with the state of a resource, at a field of the request or, with `""`, at the entire request. */
export function conflict(detail: string, pointer = ""): Problem {
  return new Problem("conflict", detail, { errors: [{ pointer, code: "conflict", message: detail }] });
}

/** A message behind its place: most go on from it, and a sentence of its own follows a colon. */
function atPlace({ pointer, message }: ProblemError, none = ""): string {
  const place = pointer || none;
  if (place === "") return message;
  return /^\p{Lu}/u.test(message) ? `${place}: ${message}` : `${place} ${message}`;
}

/** A refusal of the request's contents, with all problems up to {@link MAX_LISTED_PROBLEMS}. */
export function invalidRequest(errors: readonly ProblemError[]): Problem {
  const [first] = errors;
  const more = errors.length > 1 ? `, and ${errors.length - 1} more` : "";
  const detail = `The request is not valid: ${first ? atPlace(first) : "it cannot be read"}${more}`;
  return new Problem("invalid-request", detail, { errors });
}

/** A problem of one type with all entries of a request; its detail is the first of them. */
export function requestProblem(type: ProblemType, errors: readonly ProblemError[]): Problem {
  const [first] = errors, more = errors.length > 1 ? `, and ${errors.length - 1} more` : "";
  return new Problem(type, `${atPlace(first!, "The request")}${more}`, { errors });
}

/** The problem of an operating failure, for the client whose request caused it. */
const ERROR_PROBLEMS: Readonly<Record<ErrorCode, { type: ProblemType; code: ProblemCode | null }>> = {
  config_invalid: { type: "invalid-request", code: "invalid_value" },
  data_invalid: { type: "invalid-request", code: "invalid_value" },
  format_invalid: { type: "invalid-request", code: "unsupported_format" },
  path_not_found: { type: "invalid-request", code: "path_not_found" },
  not_built: { type: "invalid-request", code: "invalid_value" },
  template_failed: { type: "invalid-request", code: "invalid_value" },
  already_exists: { type: "conflict", code: "conflict" },
  conflict: { type: "conflict", code: "conflict" },
  device_unavailable: { type: "device-busy", code: null },
  device_lost: { type: "internal", code: null },
  out_of_memory: { type: "internal", code: null },
  loss_not_finite: { type: "internal", code: null },
  environment_failed: { type: "internal", code: null },
  tool_failed: { type: "internal", code: null },
  judge_failed: { type: "internal", code: null },
  infrastructure_failed: { type: "internal", code: null },
  model_failed: { type: "internal", code: null },
  max_dropped_fraction: { type: "internal", code: null },
  cancelled: { type: "internal", code: null },
  internal: { type: "internal", code: null },
};

/**
 * Converts an operating failure to a refusal of the field that caused it. Only the handler knows this field. A failure
 * that is not converted is answered with 500.
 *
 * @param pointer JSON pointer of the field.
 */
export function problemAt(pointer: string, error: ServiceError): Problem | ServiceError {
  const { type, code } = ERROR_PROBLEMS[error.code];
  if (type === "internal") return error;
  const { message, details: { retry_after_seconds } } = error;
  return new Problem(type, message, {
    errors: code === null ? [] : [{ pointer, code, message }],
    headers: typeof retry_after_seconds === "number" ? { "retry-after": String(retry_after_seconds) } : {},
  });
}

/** The member `error` for OpenAI's clients. */
export function openAiError(
  { type, errors: [first], message }: Problem,
): NonNullable<ProblemDocument["error"]> {
  const { status } = PROBLEM_TYPES[type], param = first?.pointer.slice(1).replaceAll("/", ".") ?? "";
  return {
    message,
    type: status === 401 ? "authentication_error" : status < 500 ? "invalid_request_error" : "server_error",
    param: param === "" ? null : param,
    code: first?.code ?? type,
  };
}

/** The body of a problem document. */
export function problemDocument(
  problem: Problem,
  { type_base, trace_id, has_openai_error = false }: {
    type_base: string;
    trace_id: string;
    has_openai_error?: boolean;
  },
): ProblemDocument {
  const { status, title } = PROBLEM_TYPES[problem.type];
  // "<base>/<kind>", also when the operator's base ends in a slash.
  const type = `${type_base.replace(/\/$/, "")}/${problem.type}`;
  return {
    type,
    title,
    status,
    detail: problem.message,
    trace_id,
    errors: [...problem.errors],
    meta: problem.meta,
    ...(has_openai_error ? { error: openAiError(problem) } : {}),
  };
}
