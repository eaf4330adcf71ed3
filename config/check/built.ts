/**
 * What this build has. Capabilities, refusals and reference pages read it here and in `not_built.ts`. The types of
 * weights are those of `kernels/weights/table.ts`.
 */

import { ENVIRONMENT_TYPES } from "../sections/environment.ts";
import { isNotBuilt, notBuiltPart } from "./not_built.ts";
import { ALGORITHMS } from "../sections/run.ts";

/** Model architectures, by their `general.architecture` in a GGUF file. */
export const BUILT_ARCHITECTURES = ["llama", "qwen2", "qwen3", "gemma2"] as const;

/** The values of `run.algorithm` that this build can run. */
export const BUILT_ALGORITHMS = ALGORITHMS.filter((name) => notBuiltPart("run.algorithm", name) === null);

/** For each `agent.environment.type` the part that is not built; null when it is built. */
export const ENVIRONMENT_PARTS = Object.fromEntries(
  ENVIRONMENT_TYPES.map((type) => [type, notBuiltPart("agent.environment.type", type)]),
) as Record<typeof ENVIRONMENT_TYPES[number], string | null>;

/** Whether MCP servers can be tools. */
export const HAS_MCP = !isNotBuilt("agent.mcp_servers");

/** Whether the web interface is compiled in. */
export const HAS_INTERFACE = false;
