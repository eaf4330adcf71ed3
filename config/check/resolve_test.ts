import assert from "node:assert/strict";
import { ServiceError } from "../../core/errors.ts";
import type { ConfigFacts } from "./derive.ts";
import { parseRunConfig } from "./load.ts";
import type { ConfigProblem } from "../text/problems.ts";
import { resolveLoaded } from "./resolve.ts";

const FACTS = { path: "/jobs/a.toml", context_length: 1024, vocabulary: 1000 };

function problemsOf(lines: string, facts: ConfigFacts = FACTS): ConfigProblem[] {
  const text = `run.algorithm = "agent_grpo"
model.path = "m.gguf"
agent.scenarios = "s.jsonl"
agent.updates = 2
agent.environment = { type = "local", allow_unsandboxed = true, scenario_toolsets = ["files"] }
${lines}`;
  try {
    resolveLoaded(parseRunConfig(text, { path: FACTS.path }), facts);
    return [];
  } catch (error) {
    assert.ok(error instanceof ServiceError && error.code === "config_invalid");
    return error.details.problems as ConfigProblem[];
  }
}

Deno.test("a value that does not fit a derived context is refused at its line", () => {
  const brief = (lines: string) => problemsOf(lines).map(({ line, key, message }) => [line, key, message]);
  assert.deepEqual(brief("agent.max_trajectory_tokens = 4000"), [
    [6, "agent.max_trajectory_tokens", "must be at most training.ctx (1024)"],
  ]);
  assert.deepEqual(brief("training.micro_batch_tokens = 128"), [
    [6, "training.micro_batch_tokens", "must be at least training.ctx (1024)"],
  ]);
  assert.match(problemsOf("training.micro_batch_tokens = 128")[0]!.hint!, /training\.ctx is not set/);
  assert.deepEqual(brief("agent.max_trajectory_tokens = 1024\ntraining.micro_batch_tokens = 1024"), []);
});

Deno.test("an initial adapter sets rank, alpha and targets", () => {
  const init_adapter = { rank: 4, alpha: Math.fround(0.1), targets: ["q_proj" as const, "v_proj" as const] };
  const facts = { ...FACTS, init_adapter };
  const from = 'lora.init_adapter = "a.gguf"\n';
  const keys = (lines: string) => problemsOf(from + lines, facts).map(({ line, key }) => `${line} ${key}`);
  assert.deepEqual(keys(""), []);
  assert.deepEqual(keys('lora.rank = 4\nlora.alpha = 0.1\nlora.targets = ["v_proj", "q_proj"]'), []);
  assert.deepEqual(keys('lora.rank = 8\nlora.alpha = 16\nlora.targets = "all"'), [
    "7 lora.rank",
    "8 lora.alpha",
    "9 lora.targets",
  ]);
  const text = `run.algorithm = "sft"
model.path = "m.gguf"
sft.data = "t.jsonl"
${from}`;
  const { lora } = resolveLoaded(parseRunConfig(text, { path: FACTS.path }), facts);
  assert.deepEqual([lora.rank, lora.alpha, lora.targets], [4, Math.fround(0.1), ["q_proj", "v_proj"]]);
});
