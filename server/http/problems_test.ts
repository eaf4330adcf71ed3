import assert from "node:assert/strict";
import { MAX_LISTED_PROBLEMS } from "../../config/text/problems.ts";
import { ServiceError } from "../../core/errors.ts";
import {
  invalidRequest,
  Problem,
  problemAt,
  problemDocument,
  type ProblemError,
  requestProblem,
} from "./problems.ts";
import { PROBLEM_TYPES } from "./problem_types.ts";

Deno.test("types have the statuses of the specification", () => {
  const statuses = Object.entries(PROBLEM_TYPES).map(([type, { status }]) => `${type} ${status}`);
  assert.deepEqual(statuses, [
    "invalid-request 422",
    "server-declared 422",
    "unknown-catalog-id 422",
    "insufficient-memory 422",
    "unauthorized 401",
    "forbidden-path 403",
    "not-found 404",
    "conflict 409",
    "payload-too-large 413",
    "unsupported-media-type 415",
    "method-not-allowed 405",
    "device-busy 503",
    "timeout 504",
    "not-implemented 501",
    "internal 500",
  ]);
});

Deno.test("a failure with a field becomes a refusal at that field; others stay failures", () => {
  const absent = problemAt("/model", new ServiceError("path_not_found", "Cannot read m.gguf: there is none"));
  assert.ok(absent instanceof Problem);
  assert.equal(absent.type, "invalid-request");
  const message = "Cannot read m.gguf: there is none";
  assert.deepEqual(absent.errors, [{ pointer: "/model", code: "path_not_found", message }]);
  const busy = problemAt(
    "/model",
    new ServiceError("device_unavailable", "Another process holds the device"),
  );
  assert.ok(busy instanceof Problem);
  assert.deepEqual([busy.type, busy.errors], ["device-busy", []]);
  const lost = new ServiceError("device_lost", "The device is gone");
  assert.equal(problemAt("/model", lost), lost);
});

Deno.test("a type's base may end in a slash", () => {
  const typeOf = (type_base: string) =>
    problemDocument(new Problem("conflict", "x"), { type_base, trace_id: "t" }).type;
  assert.equal(typeOf("https://svc.example.org/problems/"), "https://svc.example.org/problems/conflict");
  assert.equal(typeOf("urn:svc:problems"), "urn:svc:problems/conflict");
});

Deno.test("a list of errors has a limit", () => {
  const errors = (count: number) =>
    Array.from({ length: count }, (): ProblemError => ({ pointer: "", code: "invalid_value", message: "x" }));
  assert.equal(invalidRequest(errors(MAX_LISTED_PROBLEMS)).errors.length, MAX_LISTED_PROBLEMS);
  assert.equal(invalidRequest(errors(MAX_LISTED_PROBLEMS + 1)).errors.length, MAX_LISTED_PROBLEMS);
});

Deno.test("a detail puts a sentence behind its place and a colon, and anything else right behind it", () => {
  const details = (message: string) => {
    const errors = [{ pointer: "/data", code: "invalid_value" as const, message }];
    return [invalidRequest(errors).message, requestProblem("conflict", errors).message];
  };
  assert.deepEqual(details("There is no such dataset"), [
    "The request is not valid: /data: There is no such dataset",
    "/data: There is no such dataset",
  ]);
  assert.deepEqual(details("is missing"), ["The request is not valid: /data is missing", "/data is missing"]);
});
