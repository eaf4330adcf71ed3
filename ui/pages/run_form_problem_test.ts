import assert from "node:assert/strict";
import { ApiProblem } from "../client/api.ts";
import { refusalsOf } from "./run_form_problem.tsx";

const fields = { "/budget/updates": "Updates", "/name": "Name" }, id = "why";

function problemAt(...pointers: string[]): ApiProblem {
  const errors = pointers.map((pointer) => ({
    pointer,
    code: "invalid_value" as const,
    message: `at ${pointer}`,
  }));
  return new ApiProblem(
    {
      ...{ type: "/invalid-request", title: "", status: 422, detail: "", trace_id: "", meta: {} },
      errors,
    } as ApiProblem["problem"],
  );
}

Deno.test("what is refused is told with the label of its field", () => {
  const { by, listed } = refusalsOf(problemAt("/budget/updates"), { fields, id });
  assert.deepEqual([by("/budget/updates"), by("/name")], ["why", undefined]);
  assert.deepEqual(listed?.map(({ label, message }) => [label, message]), [[
    "Updates",
    "at /budget/updates",
  ]]);
});

Deno.test("a problem that is not only about fields is shown as a whole", () => {
  assert.equal(refusalsOf(problemAt("/name", ""), { fields, id }).listed, null);
  assert.equal(refusalsOf(problemAt(), { fields, id }).listed, null);
  assert.equal(refusalsOf(new Error("gone"), { fields, id }).listed, null);
});
