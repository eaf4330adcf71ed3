import assert from "node:assert/strict";
import { operatorsKeys, pathKeys, withoutPaths } from "./request_keys.ts";

const TREE = {
  model: { path: "/m.gguf" },
  output: { path: "/out" },
  run: { directory: "x" },
  agent: {
    scenarios: "ds_1",
    mcp_config: "/mcp.json",
    judge: { type: "ruler", model: "m", cache_path: "/c", rubric: "r" },
    environment: { id: "box", type: "local", allow_unsandboxed: true, limits: { cpus: 1 } },
    mcp_servers: [{ id: "a" }, { command: ["x"], url: "http://x" }],
    scenario_generation: {},
  },
};

const keys = (found: { path: (string | number)[] }[]) => found.map(({ path }) => path.join(".")).sort();

Deno.test("every key of the operator is found, however deep", () => {
  assert.deepEqual(keys(operatorsKeys(TREE)), [
    "agent.environment.allow_unsandboxed",
    "agent.environment.type",
    "agent.judge.cache_path",
    "agent.judge.model",
    "agent.judge.type",
    "agent.mcp_config",
    "agent.mcp_servers.1.command",
    "agent.mcp_servers.1.url",
    "agent.scenario_generation",
  ]);
  assert.deepEqual(operatorsKeys({ agent: { judge: { id: "a", type: "ruler" }, mcp_servers: "x" } }), []);
});

Deno.test("paths to read and to write are found, but not below a key of the operator", () => {
  assert.deepEqual(keys(pathKeys(TREE, "input")), ["agent.scenarios", "model.path"]);
  assert.deepEqual(keys(pathKeys(TREE, "output")), ["output.path", "run.directory"]);
});

Deno.test("a tree without some paths leaves the original as it is", () => {
  const copy = withoutPaths(TREE, [["agent", "judge"], ["agent", "mcp_servers", 1, "url"], ["no", "such"]]);
  const { judge, mcp_servers } = copy.agent as { judge?: object; mcp_servers: object[] };
  assert.deepEqual([judge, mcp_servers[1]], [undefined, { command: ["x"] }]);
  const emptied = withoutPaths({
    agent: { mcp_servers: [{ command: ["x"] }], judge: { model: "m" } },
    lora: {},
  }, [
    ["agent", "mcp_servers", 0, "command"],
    ["agent", "judge", "model"],
  ]);
  assert.deepEqual(emptied, { lora: {} });
  assert.equal(TREE.agent.judge.model, "m");
});
