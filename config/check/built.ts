/**
 * What this build has. Capabilities, refusals and reference pages read it here and in `not_built.ts`. The types of
 * weights are those of `kernels/weights/table.ts`, the architectures those of `trainer/model/architectures/registry.ts`.
 */

import { isNotBuilt, notBuiltPart } from "./not_built.ts";
import { ALGORITHMS } from "../algorithms.ts";

/** The values of `run.algorithm` that this build can run. */
export const BUILT_ALGORITHMS = ALGORITHMS.filter((name) => notBuiltPart("run.algorithm", name) === null);

/** Whether MCP servers can be tools. */
export const HAS_MCP = !isNotBuilt("agent.mcp_servers");

/** Whether the web interface is compiled in. */
export const HAS_INTERFACE = false;
