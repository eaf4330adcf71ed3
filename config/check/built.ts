/** What this build has. Capabilities, refusals and reference pages read it here and in `not_built.ts`. */

import { isNotBuilt, notBuiltPart } from "./not_built.ts";
import { ALGORITHMS } from "../sections/run.ts";

/** Model architectures, by their `general.architecture` in a GGUF file. */
export const BUILT_ARCHITECTURES = ["llama", "qwen2", "qwen3", "gemma2"] as const;

/** Tensor types that a model file may have: the types of kernels/weights/table.ts, by their GGUF names. */
export const BUILT_TENSOR_TYPES = [
  "F32",
  "F16",
  "BF16",
  "Q4_0",
  "Q4_1",
  "Q5_0",
  "Q5_1",
  "Q8_0",
  "Q4_K",
  "Q5_K",
  "Q6_K",
] as const;

/** The values of `run.algorithm` that this build can run. */
export const BUILT_ALGORITHMS = ALGORITHMS.filter((name) => notBuiltPart("run.algorithm", name) === null);

/** Whether MCP servers can be tools. */
export const HAS_MCP = !isNotBuilt("agent.mcp_servers");

/** Whether the web interface is compiled in. */
export const HAS_INTERFACE = false;
