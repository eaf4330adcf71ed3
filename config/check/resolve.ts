/** Resolves a loaded configuration and checks the rules again, because derived values can violate them too. */

import { LORA_TARGETS } from "../../core/lora_targets.ts";
import { ADAPTER_KEYS, type ConfigFacts, resolveConfig, type ResolvedConfig } from "./derive.ts";
import type { Finding } from "./issues.ts";
import { DEFAULT_CTX_CAP } from "../sections/defaults.ts";
import { type LoadedConfig, placeFindings, sourceTree } from "./load.ts";
import { configError } from "../text/problems.ts";
import { checkRules } from "./rules.ts";
import { valueAt } from "../text/toml_tree.ts";

/** Explains the context length when the file does not set it. */
const DERIVED_CTX =
  `training.ctx is not set: it is the smaller of ${DEFAULT_CTX_CAP} and the model's context`;

/** Keys of `[lora]` that the file sets to a value that differs from the initial adapter's. */
function adapterFindings(loaded: LoadedConfig, { init_adapter }: ConfigFacts): Finding[] {
  const toml = sourceTree(loaded), { lora } = loaded.config;
  if (!init_adapter || "message" in toml) return [];
  const targets = (value: typeof lora.targets) =>
    value === "all" ? [...LORA_TARGETS].sort().join() : [...new Set(value)].sort().join();
  const differs = {
    rank: lora.rank !== init_adapter.rank,
    alpha: Math.fround(lora.alpha) !== Math.fround(init_adapter.alpha),
    targets: targets(lora.targets) !== targets(init_adapter.targets),
  };
  return ADAPTER_KEYS.filter((key) => differs[key] && valueAt(toml.tree, ["lora", key]) !== undefined).map((
    key,
  ) => ({
    path: ["lora", key],
    code: "invalid_value",
    message: `must be that of lora.init_adapter (${JSON.stringify(init_adapter[key])})`,
    hint: "leave it out",
  }));
}

/** @throws {ServiceError} `config_invalid` for a rule that the derived values violate, at the key in the file. */
export function resolveLoaded(loaded: LoadedConfig, facts: ConfigFacts): ResolvedConfig {
  const { config, path } = loaded;
  const resolved = resolveConfig(config, facts);
  const findings = checkRules(resolved).map(({ keys, finding }) =>
    config.training.ctx === undefined && keys.includes("training.ctx")
      ? { ...finding, hint: DERIVED_CTX }
      : finding
  );
  findings.push(...adapterFindings(loaded, facts));
  if (findings.length > 0) throw configError(path, placeFindings(findings, loaded));
  return resolved;
}
