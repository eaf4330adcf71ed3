import assert from "node:assert/strict";
import { ownSection, templateVariables, trainingData, updatesLimit } from "./own_section.ts";
import { parseRunConfig } from "./load.ts";

/** A file that serves three runs, read for one of them. */
function configOf(algorithm: string) {
  const text = `
run = { algorithm = "${algorithm}" }
model = { path = "m.gguf" }
training = ${algorithm === "agent_grpo" ? "{}" : "{ updates = 7 }"}
[agent]
scenarios = "tasks.jsonl"
updates = 3
template_variables = { enable_thinking = false }
environment = { type = "local", allow_unsandboxed = true, scenario_toolsets = ["files"] }
[sft]
data = "traces.jsonl"
template_variables = { style = "short" }
[preference]
data = "pairs.jsonl"
`;
  return parseRunConfig(text, { path: "/jobs/run.toml" }).config;
}

const cases = [
  ["agent_grpo", "agent.scenarios", "/jobs/tasks.jsonl", { enable_thinking: false }, 3],
  ["sft", "sft.data", "/jobs/traces.jsonl", { style: "short" }, 7],
  ["preference", "preference.data", "/jobs/pairs.jsonl", {}, 7],
] as const;

for (const [algorithm, key, path, variables, updates] of cases) {
  Deno.test(`${algorithm} has the data, variables and updates of its own section`, () => {
    const config = configOf(algorithm);
    assert.deepEqual(trainingData(config), { key, path });
    assert.deepEqual({ ...templateVariables(config) }, variables);
    assert.equal(updatesLimit(config), updates);
    assert.equal(ownSection(config)[key.split(".")[1]!], path);
  });
}

Deno.test("a configuration without the section has nothing in it", () => {
  const { run } = configOf("sft");
  assert.deepEqual([ownSection({ run }), templateVariables({ run })], [{}, {}]);
  assert.deepEqual(trainingData({ run }), { key: "sft.data", path: undefined });
  assert.equal(updatesLimit({ run }), undefined);
});
