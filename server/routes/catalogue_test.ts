import assert from "node:assert/strict";
import { testApp } from "../app_testing.ts";

const CATALOGUE = `
[[rewards]]
id = "grader"
description = "runs the tests"
command = ["/opt/secret/grade"]
[[judges]]
id = "critic"
type = "ruler"
model = "secret-model"
base_url = "https://judge.example/secret"
api_key_env = "SECRET_KEY"
[[judges]]
id = "own"
type = "local"
[[mcp_servers]]
id = "search"
command = ["secret-search"]
env = { TOKEN = "secret" }
[[mcp_servers]]
id = "web"
url = "https://secret.example/mcp"
[[environments]]
id = "box"
description = "a sandbox"
type = "container"
image = "secret/image:1"
`;

Deno.test("the catalogue shows ids, descriptions and types, and nothing else", async () => {
  const { send } = testApp({ toml: CATALOGUE });
  const expected = {
    "rewards": [{ id: "grader", description: "runs the tests", type: "command" }],
    "judges": [
      { id: "critic", description: "", type: "ruler" },
      { id: "own", description: "", type: "local" },
    ],
    "mcp-servers": [
      { id: "search", description: "", type: "stdio" },
      { id: "web", description: "", type: "http" },
    ],
    "environments": [{ id: "box", description: "a sandbox", type: "container" }],
  };
  for (const [path, entries] of Object.entries(expected)) {
    const { status, json, body } = await send(`/v1/${path}`);
    const key = path.replace("-", "_");
    assert.deepEqual([status, json], [200, { [key]: entries, next_cursor: null }]);
    assert.ok(!body.includes("secret"), path);
  }
  const first = await send("/v1/judges?limit=1");
  assert.deepEqual(first.json.judges.map(({ id }: { id: string }) => id), ["critic"]);
  const second = await send(`/v1/judges?limit=1&cursor=${first.json.next_cursor}`);
  assert.deepEqual([second.json.judges[0].id, second.json.next_cursor], ["own", null]);
});

Deno.test("defaults have their rules, and the server's own number of updates with texts", async () => {
  const { send } = testApp({ toml: "observe_target_updates = 7" });
  const { json } = await send("/v1/defaults");
  const of = (key: string) => json.config.find((found: { key: string }) => found.key === key);
  assert.deepEqual([of("lora.rank").default, of("lora.rank").rule, of("lora.rank").required], [
    8,
    null,
    false,
  ]);
  assert.equal(of("training.lr").default, null);
  assert.match(of("training.lr").rule, /2e-4/);
  assert.equal(of("model.path").required, true);
  assert.deepEqual([json.observe_target_updates.default, json.observe_target_updates.value], [100, 7]);
  assert.equal(json.recipe.updates, 100);
});

Deno.test("the schema of requests has no key of the operator and no output path", async () => {
  const { send } = testApp();
  const { json } = await send("/v1/config-schema");
  const { agent, output, run, checkpoint } = json.properties;
  assert.equal(json.$schema, "https://json-schema.org/draft/2020-12/schema");
  assert.deepEqual(Object.keys(agent.properties.environment.properties).sort(), [
    "id",
    "limits",
    "pool",
    "tools",
  ]);
  assert.deepEqual(Object.keys(agent.properties.mcp_servers.items.properties).sort(), [
    "allowed_tools",
    "denied_tools",
    "id",
    "name",
    "required",
  ]);
  assert.ok(!("base_url" in agent.properties.judge.properties) && !("mcp_config" in agent.properties));
  assert.deepEqual(Object.keys(output.properties), ["adapter"]);
  assert.ok(!("directory" in run.properties) && !("directory" in checkpoint.properties));
  assert.equal(json.properties.training.properties.lr.maximum, 1);
});
