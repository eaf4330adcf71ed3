import assert from "node:assert/strict";
import { describeKeys } from "../describe.ts";
import { checkRunConfig } from "./load.ts";
import { NOT_BUILT } from "./not_built.ts";

const BASE = `run.algorithm = "sft"
model.path = "m.gguf"
sft.data = "t.jsonl"
`;

const AGENT = `agent.scenarios = "s.jsonl"
agent.updates = 1
`;

/** A complete configuration: of sft, or of agent_grpo for lines about the agent. */
const around = (lines: string) =>
  lines.startsWith(AGENT)
    ? `run.algorithm = "agent_grpo"
model.path = "m.gguf"
agent.environment = { type = "local", allow_unsandboxed = true, scenario_toolsets = ["files"] }
${lines}
`
    : `${BASE}${lines}\n`;

Deno.test("every entry is about a key of the schema", () => {
  const keys = describeKeys().map(({ key }) => key.replaceAll("[]", ""));
  for (const { key } of NOT_BUILT) {
    const name = key.replace(/\.\*$/, "");
    assert.ok(keys.some((known) => known === name || known.startsWith(`${name}.`)), key);
  }
});

Deno.test("a part that is not built gives one problem, with its name and line", () => {
  const cases: [string, string][] = [
    ["lora.dropout = 0.1", "lora.dropout = 0.1"],
    ["training.offload_optimizer = true", "training.offload_optimizer = true"],
    [`${AGENT}agent.overlong_penalty = 1`, "agent.overlong_penalty = 1"],
    [`${AGENT}agent.dynamic_sampling.max_resample_factor = 2`, "agent.dynamic_sampling"],
    [`${AGENT}agent.sampler_correction = "truncated"`, 'agent.sampler_correction = "truncated"'],
    ['metrics.tensorboard_dir = "tb"', "metrics.tensorboard_dir"],
  ];
  for (const [lines, use] of cases) {
    const text = around(lines);
    const { problems } = checkRunConfig(text, { path: "c.toml" });
    assert.equal(problems.length, 1, `${lines}: ${JSON.stringify(problems)}`);
    assert.equal(problems[0]!.code, "not_built");
    assert.equal(problems[0]!.line, text.split("\n").length - 1);
    assert.match(problems[0]!.message, / is not in this build$/);
    assert.ok(problems[0]!.message.startsWith(`Cannot use ${use}: `), problems[0]!.message);
  }
});

Deno.test("values that need no missing part are accepted", () => {
  for (
    const line of [
      'model.webgpu = "dawn"',
      "lora.dropout = 0",
      "training.offload_optimizer = false",
      "training.gradient_checkpointing = true",
      `${AGENT}agent.sampler_correction = "none"`,
      `${AGENT}agent.overlong_penalty = 0`,
    ]
  ) {
    assert.deepEqual(checkRunConfig(around(line), { path: "c.toml" }).problems, [], line);
  }
});
