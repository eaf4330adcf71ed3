/** A request with several problems of form gets all of them at once, with one reason for each value. */

import assert from "node:assert/strict";
import type { Given } from "./app_testing.ts";
import { type PopulatedApp, withPopulatedApp } from "./populated_testing.ts";
import { ROUTES } from "./route_table.ts";

/** The entries of a refusal as `pointer code`, sorted. */
async function problems(
  { send, pathOf }: PopulatedApp,
  operation: string,
  { search = "", ...given }: Given & { search?: string },
): Promise<string[]> {
  const route = ROUTES.find((entry) => entry.operation === operation)!;
  const { json, status } = await send(route, `${pathOf(route)}${search}`, given);
  assert.equal(status, 422, operation);
  return json.errors.map(({ pointer, code }: Record<string, string>) => `${pointer} ${code}`).sort();
}

const CASES: [operation: string, given: Given & { search?: string }, expected: string[]][] = [
  ["list_runs", { search: "?limit=0&cursor=!" }, [
    "/query/cursor invalid_value",
    "/query/limit out_of_range",
  ]],
  ["stream_run_events", { search: "?since=abc&foo=1" }, [
    "/query/foo unknown_field",
    "/query/since invalid_value",
  ]],
  ["stream_run_events", { search: "?foo=1", headers: { "last-event-id": "x" } }, [
    " invalid_value",
    "/query/foo unknown_field",
  ]],
  ["list_row_tokens", { search: "?cursor=!&ctx=99999999999999999999999" }, [
    "/query/ctx out_of_range",
    "/query/cursor invalid_value",
    "/query/model missing_field",
  ]],
  ["list_metrics", { search: "?limit=5&buckets=3&format=xml" }, [
    "/query/format invalid_value",
    "/query/limit invalid_value",
  ]],
  ["list_metrics", { search: "?limit=0&buckets=3" }, ["/query/limit out_of_range"]],
  ["list_metrics", { search: "?limit=5&buckets=3" }, ["/query/limit invalid_value"]],
  ["list_metrics", { search: "?since=9007199254740993" }, ["/query/since out_of_range"]],
  ["list_metrics", { search: "?since=99999999999999999" }, ["/query/since out_of_range"]],
  ["list_metrics", { search: "?foo=1&foo=2&since=1&since=2" }, [
    "/query/foo unknown_field",
    "/query/since invalid_value",
  ]],
  ["create_dataset", {
    ...{ search: "?name=a%0Ab&kind=x", method: "POST", body: '{"text":"a"}\n' },
    headers: { "content-type": "application/x-ndjson" },
  }, ["/query/kind invalid_value", "/query/name invalid_value"]],
  ["diff_trajectories", { search: "?a=9999999999&b=x" }, [
    "/query/a out_of_range",
    "/query/b invalid_value",
  ]],
];

Deno.test("the forms of parameters and headers are refused together, each once", () =>
  withPopulatedApp("", async (populated) => {
    for (const [operation, given, expected] of CASES) {
      assert.deepEqual(await problems(populated, operation, given), expected, JSON.stringify(given));
    }
  }));

Deno.test("broken arguments of calls are refused together with what else is wrong in a body", () =>
  withPopulatedApp("", async (populated) => {
    const call = (args: unknown) => ({ function: { name: "f", arguments: args } });
    const body = {
      messages: [{ role: "assistant", tool_calls: [call("{"), call(""), call("[1]"), call({})] }],
      ...{ temperature: 1, top_p: 1, adapter: false, checkpoint: "update_000001" },
    };
    const given = {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    };
    assert.deepEqual(await problems(populated, "generate_with_run", given), [
      "/checkpoint invalid_value",
      "/max_new_tokens missing_field",
      "/messages/0/tool_calls/0/function/arguments invalid_value",
      "/messages/0/tool_calls/2/function/arguments invalid_value",
    ]);
  }));
