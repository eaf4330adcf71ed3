import assert from "node:assert/strict";
import { applyCatalogue } from "./catalogue.ts";
import { parseServerConfig } from "../server/load.ts";

const CATALOGUE = parseServerConfig(
  `
[[environments]]
id = "box"
description = "the sandbox"
type = "container"
profile = "python"
scenario_toolsets = ["files"]
protect = ["secret/**"]
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
allowed_tools = ["find", "open"]
denied_tools = ["open"]
`,
  { path: "/etc/server.toml" },
);

const apply = (agent: Record<string, unknown>) => {
  const { tree, ...found } = applyCatalogue({ tree: { agent }, floats: new Set() }, CATALOGUE);
  // deno-lint-ignore no-explicit-any -- the test looks into a tree
  return { agent: tree.agent as any, ...found };
};

Deno.test("an environment's id becomes the operator's keys, and limits may be lowered", () => {
  const given = { environment: { id: "box", limits: { exec_timeout_secs: 5 } } };
  const { agent, unknown, beyond } = apply(given);
  const { limits, pool, type, scenario_toolsets, ...rest } = agent.environment;
  assert.deepEqual([limits, pool, type, scenario_toolsets], [
    { exec_timeout_secs: 5 },
    { max_live: 4 },
    "container",
    ["files"],
  ]);
  assert.deepEqual([rest.id, rest.description, rest.profile], [undefined, undefined, "python"]);
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

Deno.test("a request's lists and choices narrow the operator's, and never widen them", () => {
  const { agent, declared, beyond } = apply({
    judge: { id: "critic", type: "local", timeout_secs: 10 },
    environment: { id: "box", pool: { reuse: "workspace" } },
    mcp_servers: [{ id: "search", allowed_tools: ["find", "open", "rm"], denied_tools: ["find"] }],
  });
  const keys = (found: { path: (string | number)[]; code: string }[]) =>
    found.map(({ path, code }) => `${path.join(".")} ${code}`);
  assert.deepEqual(keys(declared), [
    "agent.judge.type invalid_value",
    "agent.environment.pool.reuse invalid_value",
  ]);
  assert.deepEqual(keys(beyond), [
    "agent.judge.timeout_secs out_of_range",
    "agent.mcp_servers.0.allowed_tools.1 invalid_value",
    "agent.mcp_servers.0.allowed_tools.2 invalid_value",
  ]);
  assert.deepEqual(agent.mcp_servers[0].denied_tools, ["open", "find"]);
  assert.deepEqual([agent.mcp_servers[0].name, agent.environment.protect], ["search", ["secret/**"]]);
  const same = apply({ judge: { id: "critic", type: "ruler", timeout_secs: 9 } });
  assert.deepEqual([same.declared, same.beyond], [[], []]);
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

Deno.test("a request names tools that the patterns of its entry allow", () => {
  const toml = `[[mcp_servers]]
id = "web"
command = ["web"]
allowed_tools = ["find*", "open"]
denied_tools = ["*_all"]`;
  const catalogue = parseServerConfig(toml, { path: "/etc/svc/server.toml" });
  const beyond = (...allowed_tools: string[]) => {
    const tree = { agent: { mcp_servers: [{ id: "web", allowed_tools }] } };
    return applyCatalogue({ tree, floats: new Set() } as never, catalogue).beyond.map(({ path }) =>
      path.at(-1)
    );
  };
  assert.deepEqual(beyond("find_page", "find*", "open"), []);
  assert.deepEqual(beyond("close", "f*", "*", "find_all", "opening"), [0, 1, 2, 3, 4]);
});
