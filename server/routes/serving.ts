/** OpenAI-compatible serving of runs. */

import { z } from "zod";
import { ServiceError } from "../../core/errors.ts";
import type { ChatEvent } from "../../runs/chat/chat_request.ts";
import type { ServedModel } from "../../runs/serving/served_models.ts";
import type { Serving } from "../../runs/serving/serving.ts";
import { notFound, openAiError, openAiErrorSchema, Problem, problemAt } from "../http/problems.ts";
import { streamStop, textEventStream } from "../http/sse.ts";
import {
  chatChunks,
  chatChunkSchema,
  chatCompletion,
  chatCompletionAnswerSchema,
} from "../resources/chat_answer.ts";
import { memoryProblem } from "../resources/memory_problem.ts";
import { chatCompletionSchema, chatRequestOf } from "../resources/chat_request.ts";
import { json, jsonPieces, raw, type Route, route } from "../routing/route.ts";
import type { Services } from "../routing/services.ts";

const OFF = "Serving is switched off: the operator's configuration has no [serving] enabled = true";

const offReason = ({ serving }: Services) => serving ? null : OFF;

/** The serving of a route that is not off, which is never null. */
function servingOf({ serving }: Services): Serving {
  if (!serving) throw new Problem("not-implemented", OFF);
  return serving;
}

const seconds = (time: string) => Math.floor(Date.parse(time) / 1000);

const modelSchema = z.strictObject({
  id: z.string().meta({ description: "<run id>, <run id>@<checkpoint> or <run id>@base." }),
  object: z.literal("model"),
  created: z.int().gte(0).meta({ description: "When the run was created, in seconds since 1970." }),
  owned_by: z.literal("svc"),
}).meta({ id: "ServedModel" });

const modelsSchema = z.strictObject({ object: z.literal("list"), data: z.array(modelSchema) })
  .meta({ id: "ServedModels" });

async function* modelTexts(serving: Serving): AsyncGenerator<string> {
  yield '{"object":"list","data":[';
  let separator = "";
  for await (const names of serving.models()) {
    for (const { name, created_at } of names) {
      const model = { id: name, object: "model", created: seconds(created_at), owned_by: "svc" };
      yield separator + JSON.stringify(model);
      separator = ",";
    }
  }
  yield "]}";
}

const listModels = route({
  method: "GET",
  path: "/v1/models",
  operation: "list_models",
  summary: "Runs and checkpoints that can be served, in OpenAI's form.",
  offReason,
  has_openai_error: true,
  answers: {
    200: {
      description: "All names, newest run first: its adapter, its base model and its checkpoints.",
      content: { "application/json": modelsSchema },
    },
  },
  handler: ({ services }) => jsonPieces(200, modelTexts(servingOf(services))),
});

/** Converts a failure to a refusal of the request. Other errors are returned unchanged. */
function chatProblem(error: unknown, { name, run }: ServedModel): unknown {
  if (!(error instanceof ServiceError)) return error;
  const { code, message, details: { field, keyword, pointer, is_range } } = error;
  if (code === "out_of_memory") {
    return memoryProblem(error, { pointer: "/model", doing: `serve ${name}`, plan: run.service.plan });
  }
  if (keyword !== undefined) return problemAt(`/response_format/json_schema/schema${pointer ?? ""}`, error);
  if (field === "/model") return notFound(message, field);
  if (typeof field === "string" && is_range) {
    return new Problem("invalid-request", message, {
      errors: [{ pointer: field, code: "out_of_range", message }],
    });
  }
  // A run names its fields without the `/` of a pointer.
  if (typeof field === "string") return problemAt(field.startsWith("/") ? field : `/${field}`, error);
  // The remaining errors concern the state of the run, or its files.
  return problemAt("", error);
}

/** Events whose failures are converted to problems. */
async function* withProblems(
  events: AsyncGenerator<ChatEvent>,
  model: ServedModel,
): AsyncGenerator<ChatEvent> {
  try {
    yield* events;
  } catch (error) {
    throw chatProblem(error, model);
  }
}

/** Waits for the first event and returns all. Until then the request can be refused; afterwards its answer has begun. */
async function begun(events: AsyncGenerator<ChatEvent>): Promise<AsyncGenerator<ChatEvent>> {
  const { value: first } = await events.next();
  return (async function* () {
    try {
      if (first) yield first;
      yield* events;
    } finally {
      await events.return(undefined);
    }
  })();
}

const streamFailureSchema = z.strictObject({ error: openAiErrorSchema }).meta({
  id: "ChatStreamFailure",
  description: "The last event of an answer that failed after its beginning.",
});

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`;

/** The text of a stream. A failure after its beginning is its last event. */
async function* streamText(chunks: AsyncGenerator<object>): AsyncGenerator<string> {
  try {
    for await (const chunk of chunks) yield data(chunk);
    yield "data: [DONE]\n\n";
  } catch (error) {
    const problem = error instanceof Problem ? error : new Problem("internal", "The server failed");
    yield data({ error: openAiError(problem) });
    if (!(error instanceof Problem)) throw error;
  }
}

const createChatCompletion = route({
  method: "POST",
  path: "/v1/chat/completions",
  operation: "create_chat_completion",
  summary: "Answers messages with a run, a checkpoint or a base model, in OpenAI's form.",
  offReason,
  has_openai_error: true,
  body: { content: { "application/json": chatCompletionSchema }, limit: "max_body_bytes" },
  answers: {
    200: {
      description:
        "The answer; with `stream`, chunks as server-sent events, of which the last is `[DONE]`. A failure in a " +
        "stream is an event with `error`.",
      content: { "application/json": chatCompletionAnswerSchema, "text/event-stream": z.string() },
      events: { message: z.union([chatChunkSchema, streamFailureSchema]) },
    },
  },
  problems: {
    "not-found": ["not_found"],
    "insufficient-memory": ["out_of_range"],
    "conflict": ["conflict"],
    "device-busy": [],
  },
  async handler({ body: { value }, request: { signal }, services, trace_id }) {
    const serving = servingOf(services);
    const model = await serving.find(value.model);
    if (!model) throw notFound("There is no such model; GET /v1/models lists them", "/model");
    const [random_seed] = crypto.getRandomValues(new Uint32Array(1));
    const asked = chatRequestOf(value, random_seed!), { logprobs } = asked;
    const stop = streamStop(signal);
    const events = await begun(withProblems(serving.chat(model, asked, stop.signal), model));
    const created = Math.floor(services.clock.wall_ms() / 1000);
    const head = { id: `chatcmpl-${trace_id}`, created, model: value.model };
    if (!value.stream) return json(200, await chatCompletion(events, { head, logprobs }));
    const usage = value.stream_options?.include_usage ?? false;
    const text = streamText(chatChunks(events, { head, logprobs, usage }));
    return raw(200, "text/event-stream", textEventStream(text, { clock: services.clock, stop }));
  },
});

export const SERVING_ROUTES: readonly Route[] = [listModels, createChatCompletion];
