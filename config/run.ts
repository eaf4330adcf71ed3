/** `[run]` */

import { z } from "zod";
import { integer, name, text } from "./fields.ts";

/** The values of `run.algorithm` that the specification knows, whether or not this build has them. */
export const ALGORITHMS = ["agent_grpo", "sft", "preference"] as const;

/** One of {@link ALGORITHMS}. */
export type AlgorithmName = typeof ALGORITHMS[number];

/** The section that each algorithm learns from. A file may hold others too: it then serves several runs. */
export const ALGORITHM_SECTIONS = {
  agent_grpo: "agent",
  sft: "sft",
  preference: "preference",
} as const satisfies Record<AlgorithmName, string>;

export const runSchema = z.strictObject({
  algorithm: z.enum(ALGORITHMS).meta({
    description: "How the adapter learns: from rewards of tool-calling episodes, from traces, or from pairs.",
  }),
  name: name().optional().meta({
    description: "Name of the run; also the last part of its directory.",
    rule: "the configuration file's name without its extension",
  }),
  seed: integer("run.seed").default(42).meta({
    description: "Every random choice of the run depends on this number.",
  }),
  directory: text().optional().meta({
    description: "Folder of the run's event log and metrics, and of everything whose own key names no other.",
    rule: '"runs/<name>" beside the configuration file',
    path: "output",
  }),
});
