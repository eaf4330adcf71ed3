/** What environments and servers of tools say reaches people in every command that opens them. */

import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { gpuTest } from "../kernels/gpu_testing.ts";
import { fixturePath } from "./fixture.ts";
import { withFolder } from "./folder.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

/** What `svc` writes to standard error; any status but 0 fails the test. */
async function errorsOf(...args: string[]): Promise<string> {
  const command = new Deno.Command(Deno.execPath(), { args: ["run", "-A", CLI, ...args], stdin: "null" });
  const { code, stderr } = await command.output();
  const said = new TextDecoder().decode(stderr);
  assert.equal(code, 0, said);
  return said;
}

/** A configuration with an optional server that does not start and an unknown key in its `mcp_config`. */
async function writeConfig(root: string): Promise<string> {
  const scenarios = await fixturePath("models/tiny-agent/scenarios.train.jsonl");
  await Deno.writeTextFile(`${root}/some.jsonl`, (await Deno.readTextFile(scenarios)).split("\n")[0]!);
  const server = { command: "false", required: false, stateless: true, alowed_tools: ["a"] };
  await Deno.writeTextFile(`${root}/mcp.json`, JSON.stringify({ mcpServers: { search: server } }));
  await Deno.writeTextFile(
    `${root}/run.toml`,
    `
run = { algorithm = "agent_grpo", directory = "run", seed = 3 }
model = { path = ${JSON.stringify(await fixturePath("models/tiny-agent-f16.gguf"))} }
training = { ctx = 640 }
[agent]
scenarios = "some.jsonl"
updates = 1
mcp_config = "mcp.json"
max_new_tokens_per_turn = 48
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
[evaluation]
data = ${JSON.stringify(await fixturePath("models/tiny-agent/scenarios.heldout.jsonl"))}
`,
  );
  return `${root}/run.toml`;
}

/** Each message is there once, in any order. */
function checkMessages(said: string): void {
  assert.equal(said.trimEnd().split("\n").length, 3, said);
  for (
    const expected of [
      /^svc: the MCP server "search": the run goes on without its tools: ./m,
      /^svc: .*mcp\.json: mcpServers\.search\.alowed_tools is ignored$/m,
      /^svc: tools and commands of environments of type "local" run (under bubblewrap$|WITHOUT a sandbox)/m,
    ]
  ) assert.match(said, expected);
}

Deno.test("svc tools list says why a server's tools are missing, what is ignored, and how tools run", () =>
  withFolder(async (root) => checkMessages(await errorsOf("tools", "list", await writeConfig(root)))));

gpuTest("svc eval and svc collect say it too", () =>
  withFolder(async (root) => {
    const config = await writeConfig(root);
    checkMessages(await errorsOf("eval", config, "--limit", "1", "--samples", "1"));
    checkMessages(await errorsOf("collect", config, "--k", "4", "--out", `${root}/t.jsonl`));
  }));
