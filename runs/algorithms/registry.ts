/** All algorithms of this build. */

import type { RunConfig } from "../../config/schema.ts";
import { assert } from "../../core/errors.ts";
import { agentGrpo } from "./agent_grpo/definition.ts";
import type { AlgorithmDefinition } from "./definition.ts";
import { preference } from "./preference/definition.ts";
import { sft } from "./sft/definition.ts";

const ALGORITHMS: readonly AlgorithmDefinition[] = [agentGrpo, sft, preference];

/** The entry of `[run] algorithm`. The configuration check has already refused algorithms that are not built. */
export function algorithmOf({ run }: Pick<RunConfig, "run">): AlgorithmDefinition {
  const found = ALGORITHMS.find(({ name }) => name === run.algorithm);
  assert(found, `algorithm ${run.algorithm} is in this build`);
  return found;
}
