/**
 * The schemas of answers about trajectories, one for each kind of question. Null stands for texts that were not kept.
 */

import { z } from "zod";
import {
  callSchema,
  groupFactsSchema,
  groupTextsSchema,
  indexedGroupSchema,
  memberFactsSchema,
  observedMessageSchema,
  observedUpdateSchema,
  spanSchema,
  trajectoryFailureSchema,
  verificationSchema,
} from "../../agent/results/observed.ts";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { TOKEN_ORIGINS } from "../../trainer/tokenizer/renderer.ts";

/** To which code a failure belongs. */
export const failureBoundary = trajectoryFailureSchema.shape.boundary;

const count = z.int().gte(0);
const value = z.number().nullable();

const { update, time, step, trajectories, kept, texts_kept, deterministic } = observedUpdateSchema.shape;
const { reward_min, reward_mean, reward_max } = observedUpdateSchema.shape;

/** An update in the list of updates. */
export const updateSummarySchema = z.strictObject({
  update,
  time: time.meta({ description: "When it was written." }),
  step: step.meta({ description: "Optimiser steps of the run after this update." }),
  groups: count,
  trajectories,
  kept: kept.meta({ description: "Trajectories in a group's baseline; the others were lost." }),
  passes: count.meta({ description: "Attempts that completed with a total reward above 0." }),
  failed: count.meta({ description: "Attempts that failed for reasons other than the model's." }),
  reward_min: reward_min.meta({ description: "Over all attempts; a failed one counts as 0." }),
  reward_mean,
  reward_max,
  deterministic,
  texts_kept: texts_kept.meta({ description: "Whether messages, calls, results and tokens are kept." }),
  metrics: z.record(z.string(), z.number()).meta({ description: "All values of the update by name." }),
}).meta({ id: "TrajectoryUpdate" });

const { stop_reason, status, failure, attribution, tokens, action_tokens, terminal_reward, total_reward } =
  memberFactsSchema.shape;
const { advantage, judge_score, malformed_calls, sandbox_lost, timings } = memberFactsSchema.shape;

const memberFields = {
  member: count.meta({ description: "Position in the group, from 0." }),
  stop_reason,
  status: status.meta({
    description: "kept: in the group's baseline; dropped: truncated; failed; group_dropped: with its group.",
  }),
  failure,
  attribution: attribution.unwrap().meta({
    description:
      "What an attempt that was not graded is attributed to; null when it was graded, or the run was stopped.",
  }),
  tokens: tokens.meta({ description: "Of all fragments, prompts included." }),
  action_tokens: action_tokens.meta({ description: "Tokens that the model wrote." }),
  terminal_reward: terminal_reward.meta({ description: "From verification, reward command or judge." }),
  total_reward: total_reward.meta({ description: "The rewards of all steps and the terminal one." }),
  advantage: advantage.meta({ description: "Mean over the tokens that the model wrote." }),
  malformed_calls,
  deterministic,
  sandbox_lost: sandbox_lost.unwrap().meta({
    description: "Whether its container had ended before the attempt or its verification did.",
  }),
  timings,
};

/** A member without texts. */
const memberSummarySchema = z.strictObject({
  ...memberFields,
  turns: count,
  judge_score,
}).meta({ id: "TrajectoryMemberSummary", description: "An attempt of a group, without its texts." });

const { scenario, line, toolset, graded_by, status: group_status } = groupFactsSchema.shape;

const groupFields = {
  group: count.meta({ description: "Position in the update, from 0." }),
  scenario,
  line: line.meta({ description: "The scenario's line in its file." }),
  toolset,
  graded_by: graded_by.meta({ description: "The only source of the group's rewards." }),
  status: group_status.meta({
    description: "degenerate: no advantages; too_small and ungraded: dropped.",
  }),
};

/** A group without texts. */
export const groupSummarySchema = z.strictObject({
  ...groupFields,
  members: z.array(memberSummarySchema),
}).meta({ id: "TrajectoryGroupSummary" });

const turnSchema = z.strictObject({
  turn: count,
  text: z.string().nullable().meta(TEXTS.printed),
  calls: z.array(callSchema).nullable(),
  reward: z.number().meta({ description: "Sum of its calls' rewards." }),
  advantage: value.meta({ description: "The advantage of the turn's tokens." }),
  start: count.nullable().meta({ description: "Position of the model's first token of this turn." }),
  end: count.nullable(),
  started_ms: z.number().meta({ description: "Since the first token of the prompt." }),
  generate_ms: z.number(),
  tools_ms: z.number(),
}).meta({ id: "TrajectoryTurn", description: "An assistant turn and the results of its calls." });

/** A member with all texts. */
export const memberSchema = z.strictObject({
  ...memberFields,
  step_rewards: memberFactsSchema.shape.step_rewards.meta({ description: "One for each turn." }),
  judge: z.strictObject({ score: z.number(), explanation: z.string().nullable().meta(TEXTS.printed) })
    .nullable(),
  verification: verificationSchema.extend({ output: z.string().nullable().meta(TEXTS.printed) }).meta({
    id: "TrajectoryVerification",
    description: "How the command that grades the attempt ended.",
  }).nullable(),
  messages: z.array(observedMessageSchema).nullable().meta({ description: "The entire conversation." }),
  turns: z.array(turnSchema),
  fragments: z.array(z.strictObject({ start: count, end: count })).nullable().meta({
    description:
      "The sequences that the model saw, as positions in the list of tokens: one with a prefix-stable template.",
  }),
  spans: z.array(spanSchema).nullable(),
}).meta({ id: "TrajectoryMember", description: "An attempt of a group, with its texts." });

/** A group with all texts. */
export const groupSchema = z.strictObject({
  update,
  ...groupFields,
  texts_kept,
  task: groupTextsSchema.shape.task.unwrap().meta({
    description:
      "What the scenario's line says; null without texts, when it is longer than a record may be, and in " +
      "records of earlier programs.",
  }),
  tools: groupTextsSchema.shape.tools.nullable(),
  members: z.array(memberSchema),
});

/** A token as it was trained. */
export const tokenSchema = z.strictObject({
  id: count,
  text: z.string().meta(TEXTS.data),
  origin: z.enum(TOKEN_ORIGINS).meta({
    description: "prompt; model: sampled; tool: results; forced: put into the model's turn.",
  }),
  trained: z.boolean().meta({ description: "Whether the loss had a term for it." }),
  sampler_logprob: value,
  trainer_logprob: value.meta({ description: "Of the policy before the update." }),
  advantage: value,
  ratio: value,
  clipped: z.literal([-1, 0, 1]).nullable().meta({
    description: "−1: clipped below, 1: clipped above, 0: not clipped.",
  }),
}).meta({ id: "TrajectoryToken", description: "A token of an attempt, with the values of its training." });

/** Where two members part. */
export const diffSchema = z.strictObject({
  a: count,
  b: count,
  turn: count.nullable().meta({
    description:
      "The turn of the first different token, from 0; null when it comes before the first turn, or all are equal.",
  }),
  token: count.nullable().meta({
    description: "Position of the first different token; null when all are equal.",
  }),
  a_token: tokenSchema.nullable().meta({ description: "Null when the member has ended there." }),
  b_token: tokenSchema.nullable(),
}).meta({ id: "TrajectoryDiff", description: "Where two attempts of a group part." });

/** A member that a search found. */
export const foundMemberSchema = memberSummarySchema.extend({
  update,
  group: groupFields.group,
  scenario,
}).meta({ id: "FoundTrajectoryMember" });

const { attempts, passes, failed, reward_mean: group_reward_mean } = indexedGroupSchema.shape;

const rateFields = { attempts, passes, failed, pass_rate: value, reward_mean: group_reward_mean };

/** A scenario of a run, over its updates. */
export const scenarioSchema = z.strictObject({
  scenario,
  line: groupFields.line,
  ...rateFields,
  updates: z.array(z.strictObject({ update, ...rateFields })).meta({ description: "In order." }),
}).meta({ id: "RunScenario", description: "pass_rate is passes by attempts." });

/** A group of a scenario. */
export const scenarioGroupSchema = z.strictObject({
  update,
  group: groupFields.group,
  time,
  status: group_status,
  ...rateFields,
  texts_kept,
}).meta({ id: "RunScenarioGroup" });

export type UpdateSummary = z.output<typeof updateSummarySchema>;
export type MemberSummary = z.output<typeof memberSummarySchema>;
export type TrajectoryGroupSummary = z.output<typeof groupSummarySchema>;
export type MemberView = z.output<typeof memberSchema>;
export type TokenView = z.output<typeof tokenSchema>;
export type Diff = z.output<typeof diffSchema>;
export type FoundMember = z.output<typeof foundMemberSchema>;
/** A scenario with its attempts, passes and mean reward, together and by update. */
export type ScenarioView = z.output<typeof scenarioSchema>;
export type ScenarioGroup = z.output<typeof scenarioGroupSchema>;
