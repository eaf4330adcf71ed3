import assert from "node:assert/strict";
import { apiWith } from "./api_testing.ts";
import { toolsOfRun } from "./run_tools.ts";

const SIGNAL = new AbortController().signal;

const tool = { name: "say", description: "Says a text.", parameters: { type: "object" } };

function answers(updates: unknown[], group: unknown = null) {
  return apiWith(({ url }) =>
    Response.json(url.includes("/groups/") ? group : { updates, next_cursor: null, skipped_lines: 0 })
  );
}

Deno.test("a run's tools and system message are those of its newest update", async () => {
  const messages = [{ role: "system", content: "Be brief." }, { role: "user", content: "q" }];
  const { api, requests } = answers([{ update: 7, groups: 2 }], { tools: [tool], members: [{ messages }] });
  assert.deepEqual(await toolsOfRun(api, "run_a", SIGNAL), {
    names: ["say"],
    tools: [{ type: "function", function: tool }],
    system: "Be brief.",
  });
  assert.deepEqual(requests.map(({ url }) => new URL(url).pathname), [
    "/v1/runs/run_a/trajectories",
    "/v1/runs/run_a/trajectories/updates/7/groups/0",
  ]);
});

Deno.test("a run without attempts or without their texts has no tools", async () => {
  const none = { names: [], tools: [], system: "" };
  assert.deepEqual(await toolsOfRun(answers([]).api, "run_a", SIGNAL), none);
  const { api } = answers([{ update: 1, groups: 1 }], { tools: null, members: [] });
  assert.deepEqual(await toolsOfRun(api, "run_a", SIGNAL), none);
});
