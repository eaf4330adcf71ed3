/**
 * All types and codes of problems with their meaning, for answers, the pages `/problems/<kind>` and
 * docs/reference/api.md. A new type or code is an entry here.
 */

import { CATALOGUE_TABLES } from "../../config/check/catalogue_tables.ts";

/** All codes of `errors[]` in the specification, in words. */
export const CODE_HELP = {
  missing_field: "A required field is absent.",
  unknown_field: "There is no such field; hint names a known one within two edits.",
  invalid_value: "The value has the wrong form, is no member of its list, or excludes a value beside it.",
  out_of_range: "A number or a size is outside of its range.",
  unsupported_format: "The data or the media type has a form that the server does not read.",
  path_not_found: "The path names nothing, or no regular file.",
  forbidden_path: "The path lies outside of every folder that the server opens.",
  unknown_catalog_id: "The operator's catalogue has no entry with this id.",
  needs_opt_in: "The request needs a degradation of the result that it does not allow; detail says which.",
  override_conflict: "A value of params contradicts the rest of the request.",
  conflict: "The state of a resource, or a fork's parent, does not allow it.",
  unauthorized: "The credentials are absent or wrong.",
  not_found: "What the path or the field names does not exist.",
  server_declared: "The field is reserved for the operator.",
} as const;

/** A code of `errors[]`. */
export type ProblemCode = keyof typeof CODE_HELP;

/** All codes, in the order of the specification. */
export const PROBLEM_CODES = Object.keys(CODE_HELP) as ProblemCode[];

/** A type of problem. */
interface ProblemKind {
  /** The HTTP status of the answer. */
  status: number;
  title: string;
  when: string;
  /** What a client can do. */
  action: string;
  /** All codes that entries of `errors[]` can have; none: `errors` is empty. */
  codes: readonly ProblemCode[];
}

const LISTS = Object.values(CATALOGUE_TABLES);

const anyOf = (names: readonly string[]) => names.join(", ").replace(/, (?=[^,]*$)/, " or ");
const capitalized = (text: string) => text[0]!.toUpperCase() + text.slice(1);

const TYPES = {
  "invalid-request": {
    status: 422,
    title: "The request is not valid",
    when:
      "The body, a parameter, the recipe or the configuration is malformed or not allowed, or a file that " +
      "it names is absent or holds something else.",
    action: "Correct the fields that errors[] names.",
    codes: [
      "missing_field",
      "unknown_field",
      "invalid_value",
      "out_of_range",
      "unsupported_format",
      "path_not_found",
      "needs_opt_in",
    ],
  },
  "server-declared": {
    status: 422,
    title: "Only the operator may declare this",
    when: "The request has a command, an address, a key or another value that only the operator may declare.",
    action: "Let the operator declare it in server.toml, and send its id.",
    codes: ["server_declared"],
  },
  "unknown-catalog-id": {
    status: 422,
    title: "The server's catalogue has no such entry",
    when:
      `${capitalized(anyOf(LISTS.map(({ noun }) => noun)))} has an id that the operator has not declared, ` +
      "or the parent of a fork uses one that is no longer declared.",
    action: `Take an id of GET ${anyOf(LISTS.map(({ route }) => route))}.`,
    codes: ["unknown_catalog_id"],
  },
  "insufficient-memory": {
    status: 422,
    title: "The memory does not suffice",
    when:
      "No arrangement of the memory levers makes the run fit the budgets of the device and of the machine.",
    action: "meta.dominant_posts names what takes the most, and meta.unlocks what the request could allow. " +
      "Allow it, or lower training.ctx, the rank or the limits.",
    codes: ["out_of_range"],
  },
  "unauthorized": {
    status: 401,
    title: "The request is not authorized",
    when:
      "The bearer token is missing or wrong, the signature of a link has expired, or the Host or Origin " +
      "header names something that allowed_hosts does not list.",
    action: "Send Authorization: Bearer with the server's token, to a name that the server knows.",
    codes: ["unauthorized"],
  },
  "forbidden-path": {
    status: 403,
    title: "The path lies outside of what the server shows",
    when: "A path in the request lies outside of every folder in path_roots, or is relative.",
    action: "Upload the file to POST /v1/datasets, or let the operator widen path_roots.",
    codes: ["forbidden_path"],
  },
  "not-found": {
    status: 404,
    title: "There is no such thing",
    when:
      "There is no such route, or no such run, checkpoint, dataset or artefact as the path or the body names.",
    action: "Check the address against GET /v1/openapi.json, and ids against the lists.",
    codes: ["not_found"],
  },
  "conflict": {
    status: 409,
    title: "The state does not allow this",
    when:
      "The request is valid, but the state of what it concerns does not allow it: a command that the run " +
      "cannot take now, a fork that would change the training before its checkpoint, two values that exclude each " +
      "other.",
    action: "Wait for another state, or start a new run in place of a fork.",
    codes: ["override_conflict", "conflict"],
  },
  "payload-too-large": {
    status: 413,
    title: "The body is too large",
    when: "The body has more bytes than the server accepts.",
    action: "Send less; data belongs to POST /v1/datasets, which takes large files.",
    codes: ["out_of_range"],
  },
  "unsupported-media-type": {
    status: 415,
    title: "The body is of another type",
    when:
      "The body is not labelled as a type that the route takes, is not UTF-8 by its label, or is compressed.",
    action: "Send content-type: application/json, or the route's own type, without a content encoding.",
    codes: ["unsupported_format"],
  },
  "method-not-allowed": {
    status: 405,
    title: "The path exists, but not for this method",
    when: "The path exists, but not with this method.",
    action: "Take a method of the answer's header Allow.",
    codes: [],
  },
  "device-busy": {
    status: 503,
    title: "The device is taken",
    when:
      "Every run has its slot, another process has the device, too much work waits, or the server is stopping.",
    action: "Try again after the seconds of Retry-After, or let the operator raise max_concurrent_runs or " +
      "max_queued_runs.",
    codes: [],
  },
  "timeout": {
    status: 504,
    title: "The run did not answer in time",
    when: "The run did not answer within command_timeout_seconds; the work was cancelled.",
    action: "Check that the run makes progress, ask for less, and try again.",
    codes: [],
  },
  "not-implemented": {
    status: 501,
    title: "This build does not have that part",
    when: "The operator has switched this part off, or this build does not have it.",
    action: "GET /v1/capabilities tells what this server has.",
    codes: [],
  },
  "internal": {
    status: 500,
    title: "The server failed",
    when: "The server failed in a way that the request did not cause.",
    action: "Try again; report the trace_id to the operator, whose log has the reason under it.",
    codes: [],
  },
} as const satisfies Record<string, ProblemKind>;

/** The kind of a problem, the last part of its `type`. */
export type ProblemType = keyof typeof TYPES;

/** All types, in the order of the specification. */
export const PROBLEM_TYPES: Readonly<Record<ProblemType, ProblemKind>> = TYPES;

/** The names of {@link PROBLEM_TYPES}. */
export const ALL_PROBLEM_TYPES = Object.keys(PROBLEM_TYPES) as ProblemType[];

/** Whether a text is a type of problem. */
export function isProblemType(text: string): text is ProblemType {
  return Object.hasOwn(PROBLEM_TYPES, text);
}
