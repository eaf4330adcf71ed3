import assert from "node:assert/strict";
import { ownDetail } from "./problem.ts";

Deno.test("a detail that the list of problems repeats is left out", () => {
  const errors = ["must be a number", "is missing"].map((message, i) => ({
    ...{ pointer: `/p${i}`, code: "invalid_value" as const, message },
  }));
  const of = (detail: string, count = 2) => ownDetail({ detail, errors: errors.slice(0, count) });
  assert.deepEqual([
    of("The request is not valid: /p0 must be a number, and 1 more"),
    of("must be a number", 1),
    of("Another run has the device", 1),
    of("must be a number", 0),
  ], [null, null, "Another run has the device", "must be a number"]);
});
