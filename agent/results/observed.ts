/**
 * The files of the observe directory. `index.jsonl` has a line for each update. `update_000001.jsonl` has the update's
 * groups: first a line of facts for each group, then its texts, then its tokens in parts. Lines are short enough to be
 * read one at a time, and begin with what they are about: `{"group":0,"member":2,"start":0,"part":…`.
 */

import { z } from "zod";
import { REWARD_SOURCES } from "../../config/sections/agent.ts";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { anyObject, messageSchema, toolSchema } from "../../core/chat_schema.ts";
import { isJsonObject } from "../../core/json.ts";
import { TOKEN_ORIGINS } from "../../trainer/tokenizer/renderer.ts";
import { GROUP_STATUSES } from "../trajectory/group.ts";
import {
  ATTRIBUTIONS,
  FAILURE_BOUNDARIES,
  STOP_REASONS,
  TRAJECTORY_STATUSES,
  VERIFICATION_ENDINGS,
} from "../trajectory/trajectory.ts";

/** Version of both file formats. */
export const OBSERVE_FORMAT = 2;

/** The name of the index. */
export const OBSERVE_INDEX = "index.jsonl";

/** The name of an update's file. */
export const updateFile = (update: number) => `update_${String(update).padStart(6, "0")}.jsonl`;

/** Whether a name is that of an update's file. */
export const isUpdateFile = (name: string) => /^update_\d{6,}\.jsonl$/.test(name);

/** The most tokens of a part. */
export const PART_TOKENS = 1024;

const count = z.int().gte(0);
const value = z.number().nullable();
const duration = z.number();

/** Nested data of a model or a tool. It is passed on as it is, `__proto__` keys included. */
const anyObjectOrNull = z.unknown().refine((given) => given === null || isJsonObject(given)).meta({
  type: ["object", "null"],
});

const METRIC_NAME = /^[a-z0-9_]+(\/[a-z0-9_]+)+$/;

const isValue = (item: unknown) => item === null || Number.isFinite(item);

/** A long list; `z.array` takes several times as long to check it. */
function listOf<T>(isItem: (item: unknown) => boolean) {
  return z.custom<T[]>((given) => Array.isArray(given) && given.every(isItem));
}

/** Values by name. */
const metricValues = z.custom<Record<string, number | null>>((given) =>
  isJsonObject(given) &&
  Object.entries(given as object).every(([name, item]) => METRIC_NAME.test(name) && isValue(item))
);

const counts = listOf<number>((item) => Number.isSafeInteger(item) && (item as number) >= 0);
const numbers = listOf<number | null>(isValue);

/** A failure, in facts and calls. */
export const trajectoryFailureSchema = z.object({
  boundary: z.enum(FAILURE_BOUNDARIES),
  message: z.string(),
}).meta({ id: "TrajectoryFailure", description: "A failure of code that the run does not control." });

/** A span of tokens. */
export const spanSchema = z.object({
  start: count.meta({ description: "Position of its first token." }),
  end: count.meta({ description: "Position after its last token." }),
  origin: z.enum(TOKEN_ORIGINS),
}).meta({
  id: "TokenSpan",
  description: "Consecutive tokens of one origin, as positions in the member's list of tokens.",
});

/** The times of a member. */
const timingsSchema = z.object({
  queue_ms: duration.meta({ description: "The wait for a slot." }),
  acquire_ms: duration.meta({ description: "The wait for the environment." }),
  generate_ms: duration,
  tools_ms: duration,
  reward_ms: duration.meta({ description: "Verification, reward command or judge." }),
  rollout_ms: duration.meta({
    description: "From the first token of the prompt to the end of the last turn.",
  }),
}).meta({ id: "TrajectoryTimings" });

/** A message of a conversation. */
export const observedMessageSchema = messageSchema.meta({
  id: "TrajectoryMessage",
  description: "A message in the OpenAI form; arguments are objects.",
  ...TEXTS.printed,
});

/** A tool call. */
export const callSchema = z.object({
  index: count.meta({ description: "Position among the turn's calls." }),
  id: z.string().meta(TEXTS.data),
  name: z.string().meta(TEXTS.data),
  arguments: anyObjectOrNull.meta({ description: "Null when the call was malformed.", ...TEXTS.printed }),
  text: z.string().nullable().meta({
    description: "The model's text of a malformed call.",
    ...TEXTS.printed,
  }),
  malformed: z.boolean(),
  result: z.string().nullable().meta({
    description: "The model's view of the result; null without one.",
    ...TEXTS.printed,
  }),
  reward: value,
  done: z.boolean(),
  failure: trajectoryFailureSchema.nullable(),
  exec_ms: duration,
}).meta({ id: "TrajectoryCall", description: "A tool call and its result." });

/** How a verification command ended; see VERIFICATION_ENDINGS. */
export const verificationSchema = z.object({
  ended: z.enum(VERIFICATION_ENDINGS),
  code: z.int().nullable(),
  output: z.string().meta({ description: "The end of its output when it failed.", ...TEXTS.printed }),
  capped: z.boolean(),
  tampered: z.boolean().optional().meta({
    description:
      "The attempt had changed, removed or added a protected file or link, which was undone. Absent: it had not.",
  }),
});

const trajectoryToolSchema = toolSchema.shape.function.strip().required().extend({ name: z.string() }).meta({
  id: "TrajectoryTool",
  description: "A tool as the model saw it.",
  ...TEXTS.printed,
});

/** Facts of a turn, which are kept for every update. */
const turnFactsSchema = z.object({
  turn: count,
  calls: count,
  reward: z.number(),
  started_ms: duration,
  generate_ms: duration,
  tools_ms: duration,
});

/** Facts of a member, which are kept for every update. */
export const memberFactsSchema = z.object({
  member: count,
  stop_reason: z.enum(STOP_REASONS),
  status: z.enum(TRAJECTORY_STATUSES),
  failure: trajectoryFailureSchema.nullable(),
  /** Null in files of earlier programs, too. */
  attribution: z.enum(ATTRIBUTIONS).nullable().default(null),
  turns: z.array(turnFactsSchema),
  /** Over all fragments. */
  tokens: count,
  /** The tokens that the model sampled. */
  action_tokens: count,
  step_rewards: z.array(z.number()),
  terminal_reward: value,
  total_reward: value,
  turn_advantages: z.array(value),
  advantage: value,
  judge_score: value,
  verification: verificationSchema.omit({ output: true }).nullable(),
  malformed_calls: count,
  deterministic: z.boolean(),
  /** False in files of earlier programs, too. */
  sandbox_lost: z.boolean().default(false),
  timings: timingsSchema,
});

/** Facts of a group, which are kept for every update. */
export const groupFactsSchema = z.object({
  update: z.int().gte(1),
  scenario: z.string().meta(TEXTS.data),
  line: count,
  toolset: z.object({ name: z.string(), version: z.string() }).nullable().meta(TEXTS.data),
  graded_by: z.enum(REWARD_SOURCES).nullable(),
  status: z.enum(GROUP_STATUSES),
  members: z.array(memberFactsSchema),
});

const taskSchema = z.object({
  user: z.string().meta(TEXTS.data),
  system: z.string().nullable().meta(TEXTS.data),
  metadata: anyObject.meta({
    description: "With the verify command and the rubric, if it has them.",
    ...TEXTS.data,
  }),
}).meta({ id: "TrajectoryTask", description: "The line of a group's scenario, besides its id." });

/** Texts that belong to a group. */
export const groupTextsSchema = z.object({
  /** Null without a scenario, for a task that is too long, and in files of earlier programs. */
  task: taskSchema.nullable().default(null),
  tools: z.array(trajectoryToolSchema),
  prompt_messages: z.array(observedMessageSchema),
});

/** Texts of a member. */
export const memberTextsSchema = z.object({
  messages: z.array(observedMessageSchema),
  turns: z.array(z.object({
    text: z.string().meta(TEXTS.printed),
    calls: z.array(callSchema),
    /** Positions of the model's tokens. */
    start: count,
    end: count,
  })),
  judge_explanation: z.string().nullable().meta(TEXTS.printed),
  verification_output: z.string().nullable().meta(TEXTS.printed),
  /** The number of tokens of each fragment. Positions count over all fragments, one after another. */
  fragments: z.array(count),
  spans: z.array(spanSchema),
});

/** Consecutive tokens of a member, at most {@link PART_TOKENS}; positions in spans count from the part's start. */
export const tokenPartSchema = z.object({
  tokens: counts,
  spans: z.array(spanSchema),
  /** Columns over the part's `model` tokens, as in `SampledColumns`. */
  sampled: z.object({
    turns: counts,
    sampler_logprobs: numbers,
    trainer_logprobs: numbers,
    advantages: numbers,
    ratios: numbers,
    clipped: listOf<-1 | 0 | 1 | null>((item) => item === null || item === -1 || item === 0 || item === 1),
    entropies: numbers,
    trained: listOf<boolean>((item) => typeof item === "boolean"),
  }),
  /** The text of each token. */
  texts: listOf<string>((item) => typeof item === "string"),
});

/** A group in the index. */
export const indexedGroupSchema = z.object({
  group: count,
  scenario: z.string().meta(TEXTS.data),
  line: count,
  status: groupFactsSchema.shape.status,
  attempts: count,
  passes: count,
  /** Attempts that failed for reasons other than the model's. */
  failed: count,
  /** Mean of the earned rewards, as in `reward/mean`. */
  reward_mean: value,
});

/** A line of the index. A later line of the same update replaces an earlier one. */
export const observedUpdateSchema = z.object({
  format: z.literal(OBSERVE_FORMAT),
  update: z.int().gte(1).lte(999_999_999),
  time: z.string(),
  file: z.string(),
  /** `[run] name`. */
  run_name: z.string().meta(TEXTS.data),
  /** `[run] algorithm`; null for conversations that no run made. A line without it counts as null. */
  algorithm: z.string().nullable().default(null),
  /** Updates of the run; null when unknown. */
  updates: z.int().gte(1).nullable(),
  /** Optimiser steps of the run after this update. */
  step: count,
  /** False when a wall-clock limit had an effect on an attempt. */
  deterministic: z.boolean(),
  groups: z.array(indexedGroupSchema),
  trajectories: count,
  /** Trajectories in a group's baseline; the others were lost. */
  kept: count,
  /** The smallest reward of all trajectories, counted as in `reward/mean`. */
  reward_min: value,
  reward_mean: value,
  reward_max: value,
  metrics: metricValues,
  /** Whether the file has messages, calls, results and tokens. */
  texts_kept: z.boolean(),
});

/** A line of the index. */
export type ObservedUpdate = z.output<typeof observedUpdateSchema>;
/** A group in a line of the index. */
export type IndexedGroup = z.output<typeof indexedGroupSchema>;
/** The facts of a group. */
export type GroupFacts = z.output<typeof groupFactsSchema>;
/** The facts of a member. */
export type MemberFacts = z.output<typeof memberFactsSchema>;
/** The texts of a group. */
export type GroupTexts = z.output<typeof groupTextsSchema>;
/** The texts of a member. */
export type MemberTexts = z.output<typeof memberTextsSchema>;
/** A part of a member's tokens. */
export type TokenPart = z.output<typeof tokenPartSchema>;
