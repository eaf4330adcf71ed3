import assert from "node:assert/strict";
import { checkRunConfig, parseRunConfig } from "./load.ts";
import { requestJsonSchema } from "./request_keys.ts";

const BASE = `run.algorithm = "agent_grpo"
model.path = "m.gguf"
agent.scenarios = "s.jsonl"
agent.updates = 1
`;

/** The problems of a reward in a file, without those about other keys. */
function problemsOf(lines: string): string[] {
  const { problems } = checkRunConfig(`${BASE}${lines}\n`, { path: "/c/run.toml" });
  return problems.map(({ key, code, message, hint }) =>
    `${key} ${code}: ${message}${hint === undefined ? "" : `; ${hint}`}`
  );
}

Deno.test("a program alone may grade a run; its folder is that of the file", () => {
  const reward = (more: string) =>
    parseRunConfig(`${BASE}[agent.reward]\ncommand = ["./grade.sh", "x"]\n${more}`, { path: "/c/run.toml" })
      .config.agent!.reward;
  assert.deepEqual(reward(""), { command: ["./grade.sh", "x"], timeout_secs: 60, cwd: "/c" });
  assert.deepEqual(reward('timeout_secs = 0.5\ncwd = "../g"'), {
    ...{ command: ["./grade.sh", "x"], timeout_secs: 0.5, cwd: "/g" },
  });
  assert.deepEqual(problemsOf(""), [
    "agent invalid_value: needs a source of reward: agent.environment or agent.reward or agent.judge",
  ]);
});

Deno.test("a file has no catalogue, and every other form is refused by what is wrong with it", () => {
  assert.deepEqual(problemsOf('agent.reward = "grader"'), [
    "agent.reward invalid_value: is an id, and only a server has a catalogue; " +
    "name the program in [agent.reward] command",
  ]);
  assert.deepEqual(problemsOf('agent.reward = "a b"'), [
    "agent.reward invalid_value: must be a name: up to 128 letters, digits, '_', '.' and '-', " +
    'a letter or digit first, not "a b"',
  ]);
  assert.deepEqual(problemsOf("agent.reward = 5"), [
    "agent.reward invalid_value: must be string, or table, not 5",
  ]);
  assert.deepEqual(problemsOf('agent.reward.command = ["x"]\nagent.reward.timeout_sec = 1'), [
    'agent.reward.timeout_sec unknown_field: is no known key; did you mean "agent.reward.timeout_secs"?',
  ]);
  assert.deepEqual(problemsOf("agent.reward.command = []"), [
    "agent.reward.command invalid_value: must have at least one entry",
  ]);
  assert.deepEqual(problemsOf("agent.reward.timeout_secs = 1"), [
    "agent.reward.command missing_field: is missing (Program that grades attempts, without a shell; it runs as " +
    "long as the run)",
  ]);
});

Deno.test("a request names a reward by its id alone", () => {
  const { reward } = requestJsonSchema().properties!.agent!.properties!;
  assert.deepEqual([reward!.type, reward!.anyOf, typeof reward!.description], [
    "string",
    undefined,
    "string",
  ]);
  assert.ok(new RegExp(reward!.pattern as string).test("grader"));
});
