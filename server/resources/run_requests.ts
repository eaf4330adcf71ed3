/** The bodies and answers of evaluate and generate, and how their errors map to problems. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { type ChatMessage, normalizeMessages } from "../../core/chat.ts";
import {
  anyObject,
  chatMessageSchema,
  chatToolCallSchema,
  mcpToolSchema,
  toolSchema,
} from "../../core/chat_schema.ts";
import { ServiceError } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import type { EvaluationResult } from "../../runs/algorithms/algorithm.ts";
import type { ManagedRun } from "../../runs/fleet/managed_run.ts";
import type { LiveRequestBody } from "../../runs/fleet/run_child.ts";
import { invalidRequest, notFound, Problem } from "../http/problems.ts";
import type { Services } from "../routing/services.ts";
import { evaluationResourceSchema, measurements, rowLosses } from "./evaluation.ts";
import { askFleet, fleetOf } from "./fleet_problems.ts";
import { memoryProblem } from "./memory_problem.ts";

/** The most characters of a checkpoint's name. */
const MAX_NAME_CHARS = 200;

const checkpoint = z.string().min(1).max(MAX_NAME_CHARS).optional().meta({
  description: "One of the run's checkpoints. Left out: the policy as it is; of a completed run its result.",
});

export const evaluateSchema = z.strictObject({
  checkpoint,
  limit: z.int().gte(1).default(16).meta({ description: "The most scenarios or rows." }),
}).meta({ id: "Evaluate" });

const { n: _n, update: _update, time: _time, ...measured } = evaluationResourceSchema.shape;

export const evaluationResultSchema = z.strictObject({
  checkpoint: z.string().nullable().meta({ description: "As requested." }),
  ...measured,
  deterministic: z.boolean().meta({
    description: "False when a wall-clock limit or a hosted service had an effect.",
  }),
}).meta({ id: "EvaluationResult" });

const tool = z.union([toolSchema, mcpToolSchema]).meta({
  id: "Tool",
  description: "A tool in the form of OpenAI or of the Model Context Protocol.",
});

export const generateSchema = z.strictObject({
  messages: z.array(chatMessageSchema).min(1),
  tools: z.array(tool).default([]).meta({
    description: "The tools that the model may call; none is executed.",
  }),
  max_new_tokens: z.int().gte(1).meta({ description: "At most what training.ctx leaves." }),
  temperature: z.number().gte(0).meta({ description: "0 takes the most probable token." }),
  top_p: z.number().gt(0).lte(1),
  seed: z.int().gte(0).default(0).meta({
    description: "The same request with the same seed has one answer.",
  }),
  checkpoint,
  adapter: z.boolean().default(true).meta({ description: "False: the base model answers." }),
}).refine(({ adapter, checkpoint }) => adapter !== false || checkpoint === undefined, {
  path: ["checkpoint"],
  error: "must be left out with adapter = false: the base model has no checkpoints",
  when: ({ value }) => isJsonObject(value),
}).meta({ id: "Generate", description: "A conversation that the policy of a run continues by a turn." });

export const generationSchema = z.strictObject({
  message: z.strictObject({
    role: z.literal("assistant"),
    content: z.string(),
    tool_calls: z.array(
      chatToolCallSchema.extend({
        id: z.string(),
        type: z.literal("function"),
        function: chatToolCallSchema.shape.function.extend({ arguments: anyObject }),
      }),
    ).optional(),
  }).meta(TEXTS.data),
  token_ids: z.array(z.int().gte(0)).meta({
    description: "The sampled tokens, with the one that ends the turn.",
  }),
  logprobs: z.array(z.number()).meta({
    description:
      "Of each of these tokens, by the distribution it was sampled from; with temperature 0, by that of temperature 1.",
  }),
  stop_reason: z.enum(["stop", "length"]).meta({
    description: "stop: the model ended its turn; length: max_new_tokens or training.ctx did.",
  }),
  usage: z.strictObject({ prompt_tokens: z.int().gte(0), completion_tokens: z.int().gte(0) }),
}).meta({ id: "Generation", description: "An assistant turn, with its tokens." });

/** A body of evaluate or generate that its schema has checked. */
type Generate = z.output<typeof generateSchema>;
type Evaluate = z.output<typeof evaluateSchema>;
export type GenerationAnswer = z.input<typeof generationSchema>;

/** The request of a body. */
export function generateRequest({ messages, checkpoint, ...rest }: Generate): LiveRequestBody {
  const named = checkpoint === undefined ? {} : { checkpoint };
  const normal = normalizeMessages(messages as ChatMessage[]);
  return { command: "generate", ...rest, ...named, messages: normal as unknown as { role: "user" }[] };
}

export function evaluateRequest({ limit, checkpoint }: Evaluate): LiveRequestBody {
  return { command: "evaluate", limit, ...(checkpoint === undefined ? {} : { checkpoint }) };
}

/** An evaluation on request as the API shows it. */
export function evaluationResult(
  result: EvaluationResult,
  checkpoint: string | null,
): z.input<typeof evaluationResultSchema> {
  return {
    ...{ checkpoint, ...measurements(result) },
    row_losses: result.rows === null ? [] : rowLosses(result.by_example),
    deterministic: result.deterministic,
  };
}

/**
 * Sends a request to a run, and converts its refusals to problems.
 *
 * @throws {Problem} `not-found` at the checkpoint, `invalid-request` at the messages, `insufficient-memory`, `conflict`,
 * `device-busy`, `timeout`.
 */
export async function askRun(
  run: ManagedRun,
  asked: LiveRequestBody,
  { services, request }: { services: Services; request: Request },
): Promise<unknown> {
  const { checkpoint } = asked, { signal } = request;
  if (checkpoint !== undefined && !(await run.checkpoints()).includes(checkpoint)) throw noCheckpoint();
  const timeout_ms = services.config.command_timeout_seconds * 1000;
  try {
    return await askFleet(fleetOf(services).ask(run.id, asked, { timeout_ms, signal }));
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.code !== "out_of_memory") throw questionProblem(error);
    const { plan } = run.service;
    throw memoryProblem(error, { pointer: "", doing: asked.command, plan });
  }
}

function noCheckpoint(): Problem {
  return notFound("The run has no such checkpoint; GET its checkpoints for their names", "/checkpoint");
}

function questionProblem(error: ServiceError): unknown {
  const { code, message, details } = error;
  if (code === "cancelled" && details.is_late) return new Problem("timeout", message);
  if (details.field === "checkpoint") return noCheckpoint();
  if (details.field !== "messages") return error;
  return invalidRequest([{ pointer: "/messages", code: "invalid_value", message }]);
}
