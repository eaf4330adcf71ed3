/** `[run]` */

import { z } from "zod";
import { ALGORITHM_KEYS, ALGORITHMS } from "../algorithms.ts";
import { integer, name, text } from "./fields.ts";

const SOURCES = Object.values(ALGORITHM_KEYS).map(({ has_rollouts, data: { rows } }) =>
  `from ${has_rollouts ? "rewards of tool-calling episodes" : rows}`
);

export const runSchema = z.strictObject({
  algorithm: z.enum(ALGORITHMS).meta({
    description: `How the adapter learns: ${SOURCES.slice(0, -1).join(", ")}, or ${SOURCES.at(-1)}.`,
  }),
  name: name().optional().meta({
    description: "Name of the run; also the last part of its directory.",
    rule: "the configuration file's name without its extension",
    example: "my_run",
  }),
  seed: integer("run.seed").default(42).meta({
    description: "Seed of every random choice of the run.",
  }),
  directory: text().optional().meta({
    description: "Folder of the run's event log, metrics, and all output without a path of its own.",
    rule: '"runs/<name>" beside the configuration file',
    example: "runs/my_run",
    path: "output",
  }),
  record: z.boolean().default(false).meta({
    description: "Whether answers of tools, environments and graders are recorded, for a later replay.",
  }),
});
