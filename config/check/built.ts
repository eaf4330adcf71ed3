/**
 * Which algorithms this build has, and whether it has the MCP client. ARCHITECTURE.md says where the other parts of a
 * build are listed.
 */

import { isNotBuilt, notBuiltPart } from "./not_built.ts";
import { ALGORITHMS } from "../algorithms.ts";

/** The values of `run.algorithm` that this build can run. */
export const BUILT_ALGORITHMS = ALGORITHMS.filter((name) => notBuiltPart("run.algorithm", name) === null);

/** Whether MCP servers can be tools. */
export const HAS_MCP = !isNotBuilt("agent.mcp_config");
