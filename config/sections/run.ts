/** `[run]` */

import { z } from "zod";
import { integer, name, text } from "./fields.ts";

/** All values of `run.algorithm` in the specification, built or not. */
export const ALGORITHMS = ["agent_grpo", "sft", "preference"] as const;

/** One of {@link ALGORITHMS}. */
export type AlgorithmName = typeof ALGORITHMS[number];

export const runSchema = z.strictObject({
  algorithm: z.enum(ALGORITHMS).meta({
    description: "How the adapter learns: from rewards of tool-calling episodes, from traces, or from pairs.",
  }),
  name: name().optional().meta({
    description: "Name of the run; also the last part of its directory.",
    rule: "the configuration file's name without its extension",
  }),
  seed: integer("run.seed").default(42).meta({
    description: "Seed of every random choice of the run.",
  }),
  directory: text().optional().meta({
    description: "Folder of the run's event log, metrics, and all output without a path of its own.",
    rule: '"runs/<name>" beside the configuration file',
    path: "output",
  }),
});
