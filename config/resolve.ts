/** A loaded configuration with every key's value, checked once more: derived values can break a rule too. */

import { type ConfigFacts, resolveConfig, type ResolvedConfig } from "./derive.ts";
import { type LoadedConfig, placeFindings } from "./load.ts";
import { configError } from "./problems.ts";
import { checkRules } from "./rules.ts";

/** Tells where the context comes from when the file does not say. */
const DERIVED_CTX = "training.ctx is not set: it is the smaller of 4096 and the model's context";

/** @throws {ServiceError} `config_invalid`: a rule that the derived values break, at the key that the file has. */
export function resolveLoaded({ config, path, text }: LoadedConfig, facts: ConfigFacts): ResolvedConfig {
  const resolved = resolveConfig(config, facts);
  const findings = checkRules(resolved).map((finding) =>
    config.training.ctx === undefined && finding.message.includes("training.ctx")
      ? { ...finding, hint: DERIVED_CTX }
      : finding
  );
  if (findings.length > 0) throw configError(path, placeFindings(findings, { text, path }));
  return resolved;
}
