/** What only the operator declares is refused in every form in which a client can send it. */

import assert from "node:assert/strict";
import { stringify } from "smol-toml";
import { OPERATORS_KEYS } from "../../config/check/request_keys.ts";
import { refusal, type Sent } from "../app_testing.ts";
import { type PlanApp, postJson, postToml, withPlans } from "../../tests/plan_app.ts";

const strict = { sanitizeOps: true, sanitizeResources: true };

const KEYS = OPERATORS_KEYS.map((key) => key.replace("*", "0"));

/** Sets keys of `agent`, whatever their value should be. */
function withKeys(agent: Record<string, unknown>, keys: readonly string[]): Record<string, unknown> {
  const copy = structuredClone(agent);
  for (const key of keys) {
    const parts = key.split(".").slice(1), last = parts.pop()!;
    // deno-lint-ignore no-explicit-any -- a tree of any form
    let table: any = copy;
    for (const part of parts) table = table[part] ??= {};
    table[last] = "x";
  }
  return copy;
}

const REWARD = { command: ["grade"] };

/** The answer refuses these pointers and no others. */
function assertRefused(sent: Sent, pointers: readonly string[]): void {
  const [status, type, entries] = refusal(sent);
  assert.deepEqual([status, type], [422, "server-declared"], JSON.stringify(sent.json));
  assert.deepEqual(entries.sort(), pointers.map((pointer) => `${pointer} server_declared`).sort());
}

const agentOf = (scenarios: string) => ({
  ...{ scenarios, updates: 1 },
  environment: { id: "box" },
  judge: { id: "critic" },
  mcp_servers: [{ id: "search" }],
});

Deno.test(
  "in complete configurations, as JSON and as TOML",
  strict,
  () =>
    withPlans(async ({ send, files }) => {
      const agent = { ...withKeys(agentOf(files.scenarios), KEYS), reward: REWARD };
      const config = { run: { algorithm: "agent_grpo" }, model: { path: files.model }, agent };
      const pointers = [...KEYS, "agent.reward"].map((key) => `/${key.replaceAll(".", "/")}`);
      const json = await send("/v1/plan", postJson({ config }));
      assertRefused(json, pointers.map((pointer) => `/config${pointer}`));
      assertRefused(await send("/v1/plan", postToml(stringify(config))), pointers);
    }),
);

/** A recipe with these parameters, beside an objective of ids. */
const recipe = ({ files }: PlanApp, params: Record<string, unknown>) => ({
  ...{ recipe: "agent_grpo", model: files.model, scenarios: files.scenarios, params },
  objective: { environment: "box", judge: "critic", mcp_servers: ["search"] },
});

Deno.test("in the parameters of recipes, by dotted names", strict, () =>
  withPlans(async (app) => {
    const params = { ...Object.fromEntries(KEYS.map((key) => [key, "x"])), "agent.reward": REWARD };
    const sent = await app.send("/v1/plan", postJson(recipe(app, params)));
    assertRefused(sent, Object.keys(params).map((key) => `/params/${key}`));
  }));

Deno.test(
  "in the parameters of recipes, in tables, also where other fields say otherwise",
  strict,
  () =>
    withPlans(async (app) => {
      const agent = withKeys(agentOf("elsewhere"), KEYS);
      const sent = await app.send("/v1/plan", postJson(recipe(app, { agent })));
      assertRefused(sent, KEYS.map((key) => `/params/agent/${key.split(".").slice(1).join("/")}`));
    }),
);

Deno.test("in place of an objective's ids", strict, () =>
  withPlans(async (app) => {
    const objective = {
      ...{ reward: REWARD, judge: ["curl"], environment: { type: "local" } },
      mcp_servers: ["search", { url: "http://x" }],
    };
    const sent = await app.send("/v1/plan", postJson({ ...recipe(app, {}), objective }));
    const places = ["reward", "judge", "environment", "mcp_servers/1"];
    assertRefused(sent, places.map((place) => `/objective/${place}`));
  }));

Deno.test("an entry's own value may be repeated, and not changed", strict, () =>
  withPlans(async (app) => {
    const other = await app.send("/v1/plan", postJson(recipe(app, { "agent.judge.model": "x" })));
    assertRefused(other, ["/params/agent.judge.model"]);
    // What is left is that this build has no MCP client.
    const params = { "agent.judge.type": "ruler", "agent.judge.rubric": "short" };
    const sent = await app.send("/v1/plan", postJson(recipe(app, params)));
    const [status, type, entries] = refusal(sent);
    assert.deepEqual([status, type], [422, "invalid-request"]);
    assert.ok(entries.includes("/objective/mcp_servers/0 invalid_value"), entries.join());
    assert.ok(!entries.some((entry) => entry.includes("judge")), entries.join());
  }));
