import assert from "node:assert/strict";
import { checkRunConfig } from "./load.ts";

/** The problems of a configuration with these lines in `[agent.environment]`, as line, code and message. */
function problemsOf(
  lines: string,
): [line: number | null, code: string, message: string, hint: string | undefined][] {
  const text = `run.algorithm = "agent_grpo"
model.path = "m.gguf"
agent.scenarios = "s.jsonl"
agent.updates = 1
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files", "mine"]
${lines}`;
  return checkRunConfig(text, { path: "c.toml" }).problems.map(({ line, code, message, hint }) => {
    return [line ?? null, code, message, hint];
  });
}

const tool = (parameters: string, name = "search") =>
  `[[agent.environment.toolsets.mine.tools]]
name = "${name}"
description = "Searches."
command = ["search"]
parameters = ${parameters}
`;

Deno.test("a custom toolset of built-in and own tools is accepted, and may be offered", () => {
  const tools =
    `tools = ["bash", "typescript.run_tests", { name = "search", description = "", command = ["s"], ` +
    `parameters = { type = "object", properties = { q = { type = "string" } } } }]`;
  assert.deepEqual(problemsOf(`[agent.environment.toolsets.mine]\nversion = 1\n${tools}\n`), []);
});

Deno.test("a toolset without a version, or with the name of a built-in one, is refused with its line", () => {
  const [missing] = problemsOf('[agent.environment.toolsets.mine]\ntools = ["bash"]\n');
  assert.deepEqual(missing!.slice(0, 2), [9, "missing_field"]);
  assert.equal(missing![2], "is missing");
  const [clash] = problemsOf(
    '[agent.environment.toolsets.mine]\nversion = 1\ntools = ["bash"]\n' +
      '[agent.environment.toolsets.python]\nversion = 1\ntools = ["bash"]\n',
  );
  assert.equal(clash![0], 12);
  assert.match(clash![2], /"python" is the name of a built-in toolset/);
});

Deno.test("a tool that is not there and a name that two tools have are refused with their lines", () => {
  const [unknown] = problemsOf(
    '[agent.environment.toolsets.mine]\nversion = 1\ntools = ["bash", "pyhton"]\n',
  );
  assert.equal(unknown![0], 11);
  assert.match(unknown![2], /names no built-in tool: "pyhton"; there are .*bash, /);
  assert.equal(unknown![3], 'did you mean "python"?');
  const [twice] = problemsOf(
    '[agent.environment.toolsets.mine]\nversion = 1\ntools = ["run_tests", "typescript.run_tests"]\n',
  );
  assert.match(twice![2], /"run_tests" is the name of two tools, here and at 0/);
});

Deno.test("a scenario_toolsets entry that names no toolset is refused", () => {
  const [unknown] = problemsOf("");
  assert.deepEqual(unknown!.slice(0, 2), [8, "invalid_value"]);
  assert.match(unknown![2], /names the unknown toolset "mine": there are files, python, typescript/);
});

Deno.test("parameters that are no usable JSON Schema are refused with the reason", () => {
  const head = "[agent.environment.toolsets.mine]\nversion = 1\n";
  const problem = (parameters: string) => {
    const found = problemsOf(head + tool(parameters));
    assert.equal(found.length, 1, parameters);
    assert.equal(found[0]![0], 15, parameters);
    return found[0]![2];
  };
  assert.match(problem('{ type = "string" }'), /must have type = "object"/);
  assert.match(problem('{ type = "object", required = "q" }'), /its \/required has no valid value/);
  assert.match(problem('{ "$ref" = "#" }'), /refers to itself/);
  assert.match(
    problem('{ type = "object", properties = { q = { pattern = "^(a+)+$" } } }'),
    /its \/properties\/q\/pattern has a pattern that cannot be used: a repeated group/,
  );
});
