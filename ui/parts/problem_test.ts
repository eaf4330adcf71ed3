import assert from "node:assert/strict";
import { missingOf, ownDetail, waysBack } from "./problem.ts";

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

Deno.test("what the address names and is not there is told without what is for programs", () => {
  const of = (status: number, pointer: string, detail: string) =>
    missingOf({ status, detail, errors: [{ pointer, code: "not_found", message: detail }] });
  assert.deepEqual([
    of(404, "/path/id", "There is no such run; GET /v1/runs lists them"),
    of(404, "/path/update", "The run has no trajectories of this update"),
    of(404, "/datasets/0", "There is no such dataset"),
    of(409, "/path/id", "The run has ended"),
  ], ["There is no such run", "The run has no trajectories of this update", null, null]);
  assert.equal(missingOf({ status: 404, detail: "There is no such route", errors: [] }), null);
});

Deno.test("a page leads back to those above it", () => {
  const of = (address: string) => waysBack(address.split("/")).map(({ href, label }) => `${label} ${href}`);
  assert.deepEqual(of("runs/a b"), ["All runs #/runs"]);
  assert.deepEqual(of("runs/a b/trajectories/9/0"), [
    ...["All updates #/runs/a%20b/trajectories", "The run #/runs/a%20b", "All runs #/runs"],
  ]);
  assert.deepEqual(of("runs/a/trajectories"), ["The run #/runs/a", "All runs #/runs"]);
  assert.deepEqual([of("datasets/a"), of("new")], [["All datasets #/datasets"], ["All runs #/runs"]]);
});
