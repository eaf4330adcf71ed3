/** All algorithms of this build. */

import type { AlgorithmName } from "../../config/sections/run.ts";
import type { RunConfig } from "../../config/schema.ts";
import { agentGrpo } from "./agent_grpo/definition.ts";
import type { AlgorithmDefinition } from "./definition.ts";
import { preference } from "./preference/definition.ts";
import { sft } from "./sft/definition.ts";

const ALGORITHMS: Record<AlgorithmName, AlgorithmDefinition> = { agent_grpo: agentGrpo, sft, preference };

/** The entry of `[run] algorithm`. The configuration check has already refused algorithms that are not built. */
export function algorithmOf({ run }: Pick<RunConfig, "run">): AlgorithmDefinition {
  return ALGORITHMS[run.algorithm];
}
