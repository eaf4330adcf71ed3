import assert from "node:assert/strict";
import { misbehavingCommand } from "../agent/mcp/mcp_testing.ts";
import { postJson, withPlans } from "./plan_app.ts";

/** A catalogue with an environment and a local server. */
const catalogue = (mode: string, more = "") => `
[[environments]]
id = "box"
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[[mcp_servers]]
id = "search"
command = ${JSON.stringify(misbehavingCommand(mode))}
allowed_tools = ["say", "count"]
stateless = true
cwd = "/"
${more}`;

const recipe = (files: Record<"model" | "scenarios", string>) => ({
  ...{ recipe: "agent_grpo", model: files.model, scenarios: files.scenarios },
  objective: { environment: "box", mcp_servers: ["search"] },
  params: { "training.ctx": 512, "agent.updates": 1 },
});

Deno.test("a plan starts the catalogue's servers to list their tools, in a process that may do that", () =>
  withPlans(async ({ send, files }) => {
    const { status, json, body } = await send("/v1/plan", postJson(recipe(files)));
    assert.equal(status, 200, body);
    assert.deepEqual(json.config.agent.mcp_servers, [{ id: "search" }]);
    assert.ok(!body.includes("misbehaving"), "the command is the operator's");
  }, { toml: catalogue("well") }));

Deno.test("a server that cannot be listed refuses the plan with its reason", () =>
  withPlans(async ({ send, files }) => {
    const { status, body } = await send("/v1/plan", postJson(recipe(files)));
    assert.ok(status >= 400 && status < 500, `${status} ${body}`);
    assert.match(body, /Cannot list the tools of the MCP server .*no licence/);
  }, { toml: catalogue("exit") }));

Deno.test("a variable that the operator has not set refuses the plan with its name", () =>
  withPlans(async ({ send, files }) => {
    const { status, body } = await send("/v1/plan", postJson(recipe(files)));
    assert.ok(status >= 400 && status < 500, `${status} ${body}`);
    assert.match(body, /SVC_TEST_NOT_SET is not set/);
  }, { toml: catalogue("well", 'env = { TOKEN = "${SVC_TEST_NOT_SET}" }') }));
