import assert from "node:assert/strict";
import { permissionsFor } from "../../core/permissions.ts";
import { planNeeds } from "./plan_needs.ts";
import type { PlanJobRequest } from "./plan_request.ts";

const TEXT = await Deno.readTextFile("examples/tiny_agent_grpo.toml");

const needsOf = (request: object) =>
  permissionsFor(
    planNeeds(
      { text: TEXT, files: [], fork: null, files_only: false, ...request } as object as PlanJobRequest,
    ),
  );

Deno.test("a plan reads the request's files and the parent's checkpoint; tools of this program need nothing more", () => {
  const files = [{ path: "/m.gguf" }, { path: "/tasks.jsonl" }];
  assert.deepEqual(needsOf({ files }), permissionsFor([{ read: ["/m.gguf", "/tasks.jsonl"] }]));
  assert.deepEqual(needsOf({ fork: { checkpoint: "/c", inherits: {} } }), permissionsFor([{ read: ["/c"] }]));
});

Deno.test("a request whose files alone are read, and a text that is no configuration, need no tools", () => {
  for (const request of [{ files_only: true, text: "not read" }, { text: "= 1" }, { text: "agent = 1" }]) {
    assert.deepEqual(needsOf(request), permissionsFor([]));
  }
});
