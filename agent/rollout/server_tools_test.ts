/** Calls of tools that servers have: all of JSON Schema decides which ones reach the server, and the rest is malformed. */

import { deepEqual, equal } from "node:assert/strict";
import { ManualClock } from "../../core/clock_fake.ts";
import { ScriptedEngine } from "../../trainer/engine/scripted_engine_fake.ts";
import { withToolHosts } from "../environment/with_tool_hosts.ts";
import { httpEnvironments } from "../environment/http.ts";
import { fakeServer } from "../environment/http_server_fake.ts";
import { testHost } from "../mcp/mcp_testing.ts";
import { rolloutMetrics } from "./metrics.ts";
import { callText, rolloutGroups, testRollout, turnTokens } from "./rollout_fake.ts";

interface Tool {
  schema: object;
  /** Arguments that fit. */
  right: object[];
  /** Arguments that do not, with the place. */
  wrong: [object, string][];
}

const TOOLS: Record<string, Tool> = {
  patterns: {
    schema: { patternProperties: { "^x_": { type: "integer" } }, additionalProperties: false },
    right: [{ x_1: 1 }, {}],
    wrong: [[{ x_1: "a" }, " at /x_1"], [{ y: 1 }, " at /y"]],
  },
  any_of: {
    schema: {
      properties: { a: { type: "string" } },
      anyOf: [{ required: ["a"] }, { properties: { b: { type: "integer" } }, required: ["b"] }],
    },
    right: [{ a: "x" }, { b: 1 }, { a: "x", b: 1 }],
    wrong: [[{ b: 0.5 }, " at /b"]],
  },
  others_allowed: {
    schema: { properties: { a: { type: "string" } } },
    right: [{ a: "x", more: 1 }],
    wrong: [[{ a: 1, more: 1 }, " at /a"]],
  },
  objects: {
    schema: { properties: { p: { enum: [{ x: 1 }, { x: 2 }] } } },
    right: [{ p: { x: 2 } }],
    wrong: [[{ p: { x: 3 } }, " at /p"]],
  },
  bounds: {
    schema: { properties: { s: { minLength: 3 }, n: { $ref: "#/$defs/n" } }, $defs: { n: { minimum: 3 } } },
    right: [{ s: "abc", n: 3 }],
    wrong: [[{ s: "ab" }, " at /s"], [{ n: 2 }, " at /n"]],
  },
};

const WEB = Object.entries(TOOLS).map(([name, { schema }]) => ({ name, inputSchema: schema }));
const LOCAL = Object.fromEntries(
  Object.entries(TOOLS).map(([name, { schema }]) => [`mcp_${name}`, { type: "object", ...schema }]),
);

Deno.test("calls of servers' tools are checked against all of their schemas, and wrong ones are malformed", async () => {
  const clock = new ManualClock();
  const server = fakeServer({
    "/tools": () => Response.json({ tools: [...WEB, { name: "anything" }] }),
    "/step": () => Response.json({ result: "said", reward: 1, done: false }),
  });
  await using hosted = testHost({ env: { SCHEMAS: JSON.stringify(LOCAL) } });
  const limits = { exec_timeout_secs: 30 };
  const own = httpEnvironments({ base_url: server.base_url, limits, clock });
  const environment = withToolHosts(own, [hosted.host], clock);
  const calls = Object.entries(TOOLS).flatMap(([name, { right, wrong }]) =>
    [name, `mcp_${name}`].flatMap((name) => [
      ...right.map((args) => ({ name, args, result: "said" })),
      ...wrong.map(([args, place]) => ({ name, args, result: `error: bad arguments${place}` })),
    ])
  );
  calls.push({ name: "anything", args: { at: ["all", 1] }, result: "said" });
  try {
    const text = calls.map(({ name, args }) => callText(name, args as Record<string, unknown>)).join("\n");
    const engine = new ScriptedEngine({ script: () => turnTokens(text) });
    const settings = { max_turns: 1, max_new_tokens_per_turn: 100_000, max_trajectory_tokens: 100_000 };
    const groups = await Array.fromAsync(
      rolloutGroups({ ...testRollout(engine.client, { environment, settings }), clock }),
    );
    const { turns: [turn], malformed_calls } = groups[0]!.members[0]!;
    deepEqual(turn!.calls.map(({ name, arguments: args, result }) => ({ name, args, result })), calls);
    const wrong = calls.filter(({ result }) => result !== "said");
    deepEqual([turn!.calls.filter(({ malformed }) => malformed).length, malformed_calls], [14, wrong.length]);
    equal(rolloutMetrics(groups, 1)["agent/valid_call_fraction"], 1 - wrong.length / calls.length);
    const reached = server.requests.filter(({ route }) => route === "/step");
    equal(
      reached.length,
      calls.filter(({ name, result }) => result === "said" && !name.startsWith("mcp")).length,
    );
  } finally {
    await environment.close();
    await server.end();
  }
});
