/** The source of each value of a resolved configuration. */

import { ADAPTER_KEYS, type ResolvedConfig } from "./derive.ts";
import { describeKeys } from "../describe.ts";
import { type ConfigSource, sourceTree } from "./load.ts";
import { valueAt } from "../text/toml_tree.ts";

/** `override`: the file or the command line; `derived`: a rule, or the initial adapter. */
export type ValueSource = "default" | "derived" | "override";

/** By dotted key, for every key with a value except entries of lists of tables. */
export function valueSources(source: ConfigSource, resolved: ResolvedConfig): Record<string, ValueSource> {
  const toml = sourceTree(source), tree = "message" in toml ? {} : toml.tree;
  const sources: Record<string, ValueSource> = {};
  const from_adapter = resolved.lora.init_adapter === undefined
    ? []
    : ADAPTER_KEYS.map((key) => `lora.${key}`);
  for (const { key, default: fallback } of describeKeys()) {
    const path = key.split("."), value = valueAt(resolved, path);
    if (value === undefined) continue;
    const is_default = JSON.stringify(value) === JSON.stringify(fallback) && !from_adapter.includes(key);
    if (valueAt(tree, path) !== undefined) sources[key] = "override";
    else sources[key] = is_default ? "default" : "derived";
  }
  return sources;
}
