import assert from "node:assert/strict";
import { ServiceError } from "../core/errors.ts";
import { parseRunConfig } from "./load.ts";
import type { ConfigProblem } from "./problems.ts";
import { resolveLoaded } from "./resolve.ts";

const FACTS = { path: "/jobs/a.toml", context_length: 1024, vocabulary: 1000 };

function problemsOf(lines: string): ConfigProblem[] {
  const text = `run.algorithm = "agent_grpo"
model.path = "m.gguf"
agent.scenarios = "s.jsonl"
agent.updates = 2
agent.environment = { type = "local", allow_unsandboxed = true, scenario_toolsets = ["files"] }
${lines}`;
  try {
    resolveLoaded(parseRunConfig(text, { path: FACTS.path }), FACTS);
    return [];
  } catch (error) {
    assert.ok(error instanceof ServiceError && error.code === "config_invalid");
    return error.details.problems as ConfigProblem[];
  }
}

Deno.test("what does not fit a derived context is refused at its line", () => {
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
