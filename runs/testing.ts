/** What the tests of this room share. */

import { resolveConfig, type ResolvedConfig } from "../config/derive.ts";
import { parseRunConfig } from "../config/load.ts";

/** A small agent_grpo configuration whose files lie under `root`; `more` is TOML that goes behind it. */
export function testConfig(root: string, more = ""): ResolvedConfig {
  const text = `
[run]
algorithm = "agent_grpo"
name = "test"
seed = 7
[model]
path = "model.gguf"
[training]
ctx = 256
lr = 0.01
[agent]
scenarios = "scenarios.jsonl"
updates = 3
scenarios_per_update = 2
group_size = 4
max_new_tokens_per_turn = 64
[agent.environment]
type = "local"
allow_unsandboxed = true
scenario_toolsets = ["files"]
${more}`;
  const path = `${root}/test.toml`;
  return resolveConfig(parseRunConfig(text, { path }).config, { path, context_length: 256, vocabulary: 64 });
}
