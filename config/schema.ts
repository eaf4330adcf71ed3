/** The run configuration: every section that a TOML file may hold. */

import { z } from "zod";
import { agentSchema } from "./sections/agent.ts";
import { checkpointSchema } from "./sections/checkpoint.ts";
import { evaluationSchema } from "./sections/evaluation.ts";
import { loraSchema } from "./sections/lora.ts";
import { metricsSchema } from "./sections/metrics.ts";
import { modelSchema } from "./sections/model.ts";
import { observeSchema } from "./sections/observe.ts";
import { outputSchema } from "./sections/output.ts";
import { preferenceSchema } from "./sections/preference.ts";
import { runSchema } from "./sections/run.ts";
import { sftSchema } from "./sections/sft.ts";
import { trainingSchema } from "./sections/training.ts";

export const runConfigSchema = z.strictObject({
  run: runSchema.meta({ description: "What to run." }),
  model: modelSchema.meta({ description: "The base model and where it runs." }),
  output: outputSchema.prefault({}).meta({ description: "What is written at the end." }),
  lora: loraSchema.prefault({}).meta({ description: "The adapter." }),
  sft: sftSchema.optional().meta({ description: "Learning from traces." }),
  preference: preferenceSchema.optional().meta({ description: "Learning from pairs." }),
  training: trainingSchema.prefault({}).meta({ description: "The optimiser and its batches." }),
  agent: agentSchema.optional().meta({ description: "Learning from rewards of tool-calling episodes." }),
  evaluation: evaluationSchema.optional().meta({ description: "Measuring on held-out data." }),
  checkpoint: checkpointSchema.optional().meta({ description: "States from which a run can resume." }),
  observe: observeSchema.optional().meta({ description: "Export of trajectories." }),
  metrics: metricsSchema.prefault({}).meta({ description: "Other formats of the metrics." }),
});

/** A checked configuration: defaults are filled in, derived keys are absent until `resolveConfig`. */
export type RunConfig = z.output<typeof runConfigSchema>;
/** `[agent]`. */
export type AgentConfig = NonNullable<RunConfig["agent"]>;
/** `[agent.environment]`. */
export type EnvironmentConfig = NonNullable<AgentConfig["environment"]>;
/** `[agent.judge]`. */
export type JudgeConfig = NonNullable<AgentConfig["judge"]>;
export type TrainingConfig = RunConfig["training"];
export type EvaluationConfig = NonNullable<RunConfig["evaluation"]>;
