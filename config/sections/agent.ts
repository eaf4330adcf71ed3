/** `[agent]` */

import { z } from "zod";
import { DEFAULT_CLIPS, DEFAULT_CTX_CAP, MAX_DEFAULT_CONCURRENT_ROLLOUTS } from "./defaults.ts";
import { environmentSchema } from "./environment.ts";
import {
  httpUrl,
  integer,
  name,
  number,
  numberText,
  templateVariablesSchema,
  text,
  variableName,
} from "./fields.ts";
import { judgeSchema } from "./judge.ts";
import { mcpServerSchema } from "./mcp.ts";
import { rewardSchema } from "./reward.ts";

/**
 * The keys of `[agent]` that can give rewards, in the order in which they are asked. The first that can grade a group is
 * its only source of rewards.
 */
export const REWARD_SOURCES = ["environment", "reward", "judge"] as const;

/** One of {@link REWARD_SOURCES}. */
export type RewardSource = typeof REWARD_SOURCES[number];

/** A source of rewards besides the environment. */
export type GraderName = Exclude<RewardSource, "environment">;

/** The sources besides the environment. */
export const GRADERS = REWARD_SOURCES.filter((source): source is GraderName => source !== "environment");

const clipsText = (side: "low" | "high") =>
  Object.entries(DEFAULT_CLIPS).map(([level, clip]) => `${numberText(clip[side])} at level ${level}`).join(
    ", ",
  );

/** Keys that shape an episode. */
const rolloutKeys = {
  max_turns: integer("agent.max_turns").default(6).meta({ description: "Assistant turns of a trajectory." }),
  max_new_tokens_per_turn: integer("agent.max_new_tokens_per_turn").default(512).meta({
    description: "Tokens of an assistant turn.",
  }),
  max_rollout_secs: number("agent.max_rollout_secs").default(300).meta({
    description: "Seconds of a trajectory, from the first token of its prompt; 0: no limit.",
  }),
  max_trajectory_tokens: integer("agent.max_trajectory_tokens").optional().meta({
    description: "Tokens of a trajectory, prompt and tool results included.",
    rule: "training.ctx",
    example: DEFAULT_CTX_CAP,
  }),
  end_on_no_tool_call: z.boolean().default(true).meta({
    description: "A turn without a tool call ends the trajectory.",
  }),
  max_failed_turns: integer("agent.max_failed_turns").default(0).meta({
    description: "Malformed turns in a row that end the trajectory as tool_failed; 0: no limit.",
  }),
  system_suffix: z.string().optional().meta({
    description: "Text appended to every scenario's system prompt.",
    rule: "none",
    example: " Be brief.",
  }),
  template_variables: templateVariablesSchema().default({}).meta({
    description: "Variables for the chat template.",
  }),
  temperature: number("agent.temperature").default(1).meta({
    description: "Sampling temperature; only 1 is accepted in training.",
  }),
  concurrent_rollouts: integer("agent.concurrent_rollouts").optional().meta({
    description: "Trajectories that run at once.",
    rule: `scenarios_per_update · group_size, at most ${MAX_DEFAULT_CONCURRENT_ROLLOUTS}`,
    example: 32,
  }),
};

/** Keys that shape the learning from an update's trajectories. */
const learningKeys = {
  truncation: z.enum(["drop", "min_reward"]).default("drop").meta({
    description: "A trajectory that hit a limit: drop it, or keep it with the lowest reward of its group.",
  }),
  max_dropped_fraction: number("agent.max_dropped_fraction").default(0.5).meta({
    description: "The run fails when a larger share of an update's trajectories is lost.",
  }),
  advantage: z.enum(["leave_one_out", "mean", "mean_std"]).default("leave_one_out").meta({
    description:
      "A reward minus the mean of the others, minus the group's mean, or the latter divided by the standard deviation.",
  }),
  importance_sampling_level: z.enum(["token", "sequence"]).default("token").meta({
    description: "One ratio per token, or one per trajectory over its action tokens (GSPO).",
  }),
  clip_low: number("agent.clip_low").optional().meta({
    description: "The ratio is clipped below 1 - clip_low.",
    rule: clipsText("low"),
    example: DEFAULT_CLIPS.token.low,
  }),
  clip_high: number("agent.clip_high").optional().meta({
    description: "The ratio is clipped above 1 + clip_high.",
    rule: clipsText("high"),
    example: DEFAULT_CLIPS.token.high,
  }),
  kl_coefficient: number("agent.kl_coefficient").default(0).meta({
    description: "Factor of the KL term against the reference.",
  }),
  kl_reference: z.enum(["base", "init_adapter"]).default("base").meta({
    description: "The reference policy: the base model, or the adapter that training starts from.",
  }),
  max_update_kl: number("agent.max_update_kl").default(1e-3).meta({
    description:
      "Largest KL(before, after) of an update in nats per token: a step that goes farther is shortened; 0: no bound.",
  }),
  epochs_per_update: integer("agent.epochs_per_update").default(1).meta({
    description: "Training passes over an update's samples.",
  }),
  optimizer_steps_per_update: integer("agent.optimizer_steps_per_update").default(1).meta({
    description:
      "Optimiser steps of an epoch: its groups, shuffled by seed, are divided among them; no group is split.",
  }),
  old_logprobs: z.enum(["rescored", "sampler"]).default("rescored").meta({
    description:
      "Source of the old policy's log-probabilities: recomputed by the training kernels, or as the sampler gave them.",
  }),
  sampler_correction: z.enum(["none", "truncated"]).default("none").meta({
    description: "Weight tokens by the ratio of trainer to sampler, cut at sampler_correction_cap.",
  }),
  sampler_correction_cap: number("agent.sampler_correction_cap").default(2).meta({
    description: "Largest weight of sampler_correction.",
  }),
  overlong_penalty: number("agent.overlong_penalty").optional().meta({
    description: "Factor of DAPO's soft penalty for long trajectories.",
    rule: "0: no penalty",
    example: 0,
  }),
  dynamic_sampling: z.strictObject({
    max_resample_factor: number("agent.dynamic_sampling.max_resample_factor").meta({
      description: "Most groups that are sampled, as a multiple of scenarios_per_update.",
    }),
  }).optional().meta({ description: "Sample further groups in place of degenerate ones.", rule: "off" }),
};

const scenarioGenerationSchema = z.strictObject({
  model: text().meta({ description: "Model that writes scenarios." }),
  base_url: httpUrl().optional().meta({ description: "Address of its API.", rule: "that of the judge" }),
  api_key_env: variableName().optional().meta({
    description: "Environment variable that holds its key.",
    rule: "no key is sent",
  }),
  count: integer("agent.scenario_generation.count").default(100).meta({ description: "Scenarios to write." }),
});

const collectApiSchema = z.strictObject({
  model: text().meta({ description: "Model that generates traces." }),
  base_url: httpUrl().optional().meta({ description: "Address of its API.", rule: "that of the judge" }),
  api_key_env: variableName().optional().meta({
    description: "Environment variable that holds its key.",
    rule: "no key is sent",
  }),
});

export const agentSchema = z.strictObject({
  scenarios: text().meta({ description: "JSONL of scenarios, the tasks to train on.", path: "input" }),
  updates: integer("agent.updates").meta({ description: "Updates: rollouts, then optimiser steps." }),
  scenarios_per_update: integer("agent.scenarios_per_update").default(4).meta({
    description: "Scenarios of an update; each is one group.",
  }),
  group_size: integer("agent.group_size").default(8).meta({
    description: "Trajectories of each scenario, which are compared with each other.",
  }),
  ...rolloutKeys,
  ...learningKeys,
  reward: z.union([name(), rewardSchema]).optional().meta({
    description:
      "Grades groups that the environment does not: an id of the server's catalogue, or a program.",
    rule: "none",
    example: { command: ["node", "grade.js"], timeout_secs: 60, cwd: "." },
  }),
  judge_failure: z.enum(["drop_group", "fail"]).default("drop_group").meta({
    description: "When a reward or a judge gives no usable answer: drop the group, or fail the run.",
  }),
  mcp_config: text().optional().meta({
    description: "An MCP configuration file whose servers are all used.",
    rule: "none",
    example: "mcp.json",
    path: "input",
  }),
  environment: environmentSchema.optional().meta({
    description: "Where tools run, and what verifies the result.",
  }),
  judge: judgeSchema.optional().meta({ description: "Grades groups that have no other grader." }),
  mcp_servers: z.array(mcpServerSchema).default([]).meta({ description: "MCP servers as tools." }),
  scenario_generation: scenarioGenerationSchema.optional().meta({
    description: "Used by `svc scenarios generate` alone.",
  }),
  collect_api: collectApiSchema.optional().meta({ description: "Used by `svc collect --api` alone." }),
});
