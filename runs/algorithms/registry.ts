/** All algorithms of this build. */

import { algorithmKeys, type AlgorithmName, ALGORITHMS, type DataKind } from "../../config/algorithms.ts";
import type { RunConfig } from "../../config/schema.ts";
import { assert } from "../../core/errors.ts";
import { agentGrpo } from "./agent_grpo/definition.ts";
import type { AlgorithmDefinition } from "./definition.ts";
import { preference } from "./preference/definition.ts";
import type { RowKind } from "./row_kind.ts";
import { sft } from "./sft/definition.ts";

const DEFINITIONS: Record<AlgorithmName, AlgorithmDefinition> = { agent_grpo: agentGrpo, sft, preference };

/**
 * The entry of `[run] algorithm`. The configuration check has already refused algorithms that are not built.
 *
 * @example
 * ```ts
 * import assert from "node:assert/strict";
 * import { loadRunConfig } from "../../config/check/load.ts";
 *
 * const { config } = await loadRunConfig("examples/tiny_agent_grpo.toml");
 * assert.equal(algorithmOf(config).objective, "eval/pass_rate");
 * ```
 */
export function algorithmOf({ run }: Pick<RunConfig, "run">): AlgorithmDefinition {
  return DEFINITIONS[run.algorithm];
}

/** How rows of a kind are checked and rendered. */
export function rowsOfKind(kind: DataKind): RowKind {
  const algorithm = ALGORITHMS.find((name) => algorithmKeys(name).data.kind === kind);
  assert(algorithm, `an algorithm has data of the kind ${kind}`);
  return DEFINITIONS[algorithm].rows;
}
