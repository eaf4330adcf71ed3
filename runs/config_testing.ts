/** Helpers for this room's tests. */

import { resolveConfig, type ResolvedConfig } from "../config/check/derive.ts";
import { parseRunConfig } from "../config/check/load.ts";
import { encodeGgufHeader } from "../trainer/formats/gguf_writer.ts";

/** A small agent_grpo configuration with its files in `root`; `more` is TOML to append. */
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

/** A file that counts as a run's adapter or, with another name, as a file of someone else. */
export function adapterFileBytes(name = "adapter"): Uint8Array {
  const text = (value: string) => ({ type: "string" as const, value });
  const metadata = { "general.type": "adapter", "general.name": name, "adapter.type": "lora" };
  return encodeGgufHeader(new Map(Object.entries(metadata).map(([key, value]) => [key, text(value)])), []);
}
