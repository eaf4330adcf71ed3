import assert from "node:assert/strict";
import { applyCatalogue } from "./catalogue.ts";
import { parseServerConfig } from "../server/load.ts";

const CATALOGUE = parseServerConfig(
  `
[[environments]]
id = "box"
description = "the sandbox"
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[environments.limits]
exec_timeout_secs = 20
[environments.pool]
max_live = 4
[[rewards]]
id = "grader"
command = ["grade"]
[[judges]]
id = "critic"
model = "m"
base_url = "http://localhost:1"
timeout_secs = 9
[[mcp_servers]]
id = "search"
command = ["search"]
stateless = true
`,
  { path: "/etc/server.toml" },
);

const apply = (agent: Record<string, unknown>) => {
  const { tree, unknown, beyond } = applyCatalogue({ tree: { agent }, floats: new Set() }, CATALOGUE);
  // deno-lint-ignore no-explicit-any -- the test looks into a tree
  return { agent: tree.agent as any, unknown, beyond };
};

Deno.test("an environment's id becomes the operator's keys, and limits may be lowered", () => {
  const given = { environment: { id: "box", limits: { exec_timeout_secs: 5 } } };
  const { agent, unknown, beyond } = apply(given);
  const { limits, pool, type, scenario_toolsets, ...rest } = agent.environment;
  assert.deepEqual([limits, pool, type, scenario_toolsets], [
    { exec_timeout_secs: 5 },
    { max_live: 4 },
    "local",
    ["files"],
  ]);
  assert.deepEqual([rest.id, rest.description, rest.allow_unsandboxed], [undefined, undefined, true]);
  assert.deepEqual([unknown, beyond], [[], []]);
  assert.deepEqual(given, { environment: { id: "box", limits: { exec_timeout_secs: 5 } } });
});

Deno.test("limits above the operator's are findings at their keys", () => {
  const { beyond } = apply({
    environment: { id: "box", limits: { exec_timeout_secs: 21, cpus: 9 }, pool: { max_live: 5 } },
  });
  assert.deepEqual(beyond.map(({ path, code }) => [path.join("."), code]), [
    ["agent.environment.limits.exec_timeout_secs", "out_of_range"],
    ["agent.environment.pool.max_live", "out_of_range"],
  ]);
});

Deno.test("rewards, judges and servers are filled in", () => {
  const { agent } = apply({
    reward: "grader",
    judge: { id: "critic", rubric: "short" },
    mcp_servers: [{ id: "search", allowed_tools: ["find"] }],
  });
  // A relative folder is that of the server's file.
  assert.deepEqual(agent.reward, { command: ["grade"], timeout_secs: 60, cwd: "/etc" });
  assert.deepEqual([agent.judge.model, agent.judge.rubric, agent.judge.timeout_secs], ["m", "short", 9]);
  assert.deepEqual([agent.mcp_servers[0].command, agent.mcp_servers[0].allowed_tools], [["search"], [
    "find",
  ]]);
});

Deno.test("ids without an entry are found, however odd", () => {
  const { unknown } = apply({
    reward: "__proto__",
    judge: { id: "constructor" },
    environment: { id: "b" },
    mcp_servers: [{ id: "search" }, { id: "x" }, "y"],
  });
  assert.deepEqual(unknown.map(({ path }) => path.join(".")), [
    "agent.reward",
    "agent.judge.id",
    "agent.environment.id",
    "agent.mcp_servers.1.id",
  ]);
  assert.deepEqual(apply({ environment: 5 as unknown }).unknown, []);
});
