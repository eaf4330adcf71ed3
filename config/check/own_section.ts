/** The values in the section of a configuration's algorithm, and under other keys that the algorithm determines. */

import { algorithmKeys, type AlgorithmSection } from "../algorithms.ts";
import type { RunConfig } from "../schema.ts";
import { valueAt } from "../text/toml_tree.ts";

/** A configuration at any stage of its checks, or the sections of one that are read here. */
export type SectionedConfig =
  & Pick<RunConfig, "run">
  & { readonly [section in AlgorithmSection | "training"]?: object | undefined };

const valueOf = (config: SectionedConfig, key: string) => valueAt(config, key.split("."));

/** The values of the section; empty without one. */
export function ownSection(config: SectionedConfig): Record<string, unknown> {
  return { ...config[algorithmKeys(config.run.algorithm).section] };
}

/** The key of the training data and its path. A checked configuration has one. */
export function trainingData(config: SectionedConfig): { key: string; path: string | undefined } {
  const { key } = algorithmKeys(config.run.algorithm).data;
  return { key, path: valueOf(config, key) as string | undefined };
}

/** The variables of its chat template; none in a section that has no such key. */
export function templateVariables(config: SectionedConfig): Readonly<Record<string, unknown>> {
  return (ownSection(config).template_variables ?? {}) as Record<string, unknown>;
}

/** The most updates that it asks for; undefined when it sets no such number. */
export function updatesLimit(config: SectionedConfig): number | undefined {
  return valueOf(config, algorithmKeys(config.run.algorithm).updates_key) as number | undefined;
}
