/** What the types and codes of problems mean to people: for the pages `/problems/<kind>` and docs/reference/api.md. */

import { PROBLEM_TYPES, type ProblemCode, type ProblemType } from "./problems.ts";

/** A type of problem in words. */
interface ProblemHelp {
  when: string;
  /** What a client can do. */
  action: string;
  /** All codes that entries of `errors[]` can have; none: `errors` is empty. */
  codes: readonly ProblemCode[];
}

export const PROBLEM_HELP: Readonly<Record<ProblemType, ProblemHelp>> = {
  "invalid-request": {
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
    when: "The request has a command, an address, a key or another value that only the operator may declare.",
    action: "Let the operator declare it in server.toml, and send its id.",
    codes: ["server_declared"],
  },
  "unknown-catalog-id": {
    when:
      "A reward, a judge, an MCP server or an environment has an id that the operator has not declared, or " +
      "the parent of a fork uses one that is no longer declared.",
    action: "Take an id of GET /v1/rewards, /v1/judges, /v1/mcp-servers or /v1/environments.",
    codes: ["unknown_catalog_id"],
  },
  "insufficient-memory": {
    when:
      "No arrangement of the memory levers makes the run fit the budgets of the device and of the machine.",
    action: "meta.dominant_posts names what takes the most, and meta.unlocks what the request could allow. " +
      "Allow it, or lower training.ctx, the rank or the limits.",
    codes: ["out_of_range"],
  },
  "unauthorized": {
    when:
      "The bearer token is missing or wrong, the signature of a link has expired, or the Host or Origin " +
      "header names something that allowed_hosts does not list.",
    action: "Send Authorization: Bearer with the server's token, to a name that the server knows.",
    codes: ["unauthorized"],
  },
  "forbidden-path": {
    when: "A path in the request lies outside of every folder in path_roots, or is relative.",
    action: "Upload the file to POST /v1/datasets, or let the operator widen path_roots.",
    codes: ["forbidden_path"],
  },
  "not-found": {
    when:
      "There is no such route, or no such run, checkpoint, dataset or artefact as the path or the body names.",
    action: "Check the address against GET /v1/openapi.json, and ids against the lists.",
    codes: ["not_found"],
  },
  "conflict": {
    when:
      "The request is valid, but the state of what it concerns does not allow it: a command that the run " +
      "cannot take now, a fork that would change the training before its checkpoint, two values that exclude each " +
      "other.",
    action: "Wait for another state, or start a new run in place of a fork.",
    codes: ["override_conflict", "conflict"],
  },
  "payload-too-large": {
    when: "The body has more bytes than the server accepts.",
    action: "Send less; data belongs to POST /v1/datasets, which takes large files.",
    codes: ["out_of_range"],
  },
  "unsupported-media-type": {
    when:
      "The body is not labelled as a type that the route takes, is not UTF-8 by its label, or is compressed.",
    action: "Send content-type: application/json, or the route's own type, without a content encoding.",
    codes: ["unsupported_format"],
  },
  "method-not-allowed": {
    when: "The path exists, but not with this method.",
    action: "Take a method of the answer's header Allow.",
    codes: [],
  },
  "device-busy": {
    when:
      "Every run has its slot, another process has the device, too much work waits, or the server is stopping.",
    action: "Try again after the seconds of Retry-After, or let the operator raise max_concurrent_runs or " +
      "max_queued_runs.",
    codes: [],
  },
  "timeout": {
    when: "The run did not answer within command_timeout_seconds; the work was cancelled.",
    action: "Check that the run makes progress, ask for less, and try again.",
    codes: [],
  },
  "not-implemented": {
    when: "The operator has switched this part off, or this build does not have it.",
    action: "GET /v1/capabilities tells what this server has.",
    codes: [],
  },
  "internal": {
    when: "The server failed in a way that the request did not cause.",
    action: "Try again; report the trace_id to the operator, whose log has the reason under it.",
    codes: [],
  },
};

export const CODE_HELP: Readonly<Record<ProblemCode, string>> = {
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
};

/** Whether a text is a type of problem. */
export function isProblemType(text: string): text is ProblemType {
  return Object.hasOwn(PROBLEM_TYPES, text);
}

/** All types, in the order of the specification. */
export const ALL_PROBLEM_TYPES = Object.keys(PROBLEM_TYPES) as ProblemType[];
