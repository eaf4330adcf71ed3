/** Chat completions in OpenAI's form: the complete answer, and its chunks. */

import { z } from "zod";
import { TEXTS } from "../../config/text/text_kinds.ts";
import { chatToolCallSchema } from "../../core/chat_schema.ts";
import type { ChatDelta, ChatEvent, ChatToken, FinishReason } from "../../runs/chat/chat_request.ts";

const count = z.int().gte(0);

const usageSchema = z.strictObject({
  prompt_tokens: count,
  completion_tokens: count.meta({ description: "Of all answers, with the tokens that ended them." }),
  total_tokens: count,
}).meta({ id: "ChatUsage" });

const completionToolCallSchema = chatToolCallSchema.extend({
  id: z.string(),
  type: z.literal("function"),
  function: chatToolCallSchema.shape.function.extend({
    arguments: z.string().meta({ description: "A JSON object." }),
  }),
}).meta({ id: "ChatToolCall" });

const logprobsSchema = z.strictObject({
  content: z.array(z.strictObject({
    token: z.string(),
    logprob: z.number().meta({ description: "Among the tokens that could be sampled." }),
    bytes: z.array(z.int().gte(0).lte(255)),
    top_logprobs: z.array(z.never()),
  })),
  refusal: z.null(),
}).meta({ id: "ChatLogprobs", description: "The sampled tokens, without the one that ended the turn." });

const finishReason = z.enum(["stop", "length", "tool_calls"]);

export const chatCompletionAnswerSchema = z.strictObject({
  id: z.string(),
  object: z.literal("chat.completion"),
  created: z.int().gte(0).meta({ description: "Seconds since 1970." }),
  model: z.string(),
  choices: z.array(z.strictObject({
    index: count,
    message: z.strictObject({
      role: z.literal("assistant"),
      content: z.string().nullable(),
      refusal: z.null(),
      reasoning_content: z.string().optional().meta({ description: "The thinking before the content." }),
      tool_calls: z.array(completionToolCallSchema).optional(),
    }),
    logprobs: logprobsSchema.nullable(),
    finish_reason: finishReason,
  })).meta(TEXTS.data),
  usage: usageSchema,
}).meta({ id: "ChatCompletion" });

const deltaSchema = z.strictObject({
  role: z.literal("assistant").optional(),
  content: z.string().optional(),
  refusal: z.null().optional(),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(z.strictObject({ index: count, ...completionToolCallSchema.shape })).optional(),
});

export const chatChunkSchema = z.strictObject({
  id: z.string(),
  object: z.literal("chat.completion.chunk"),
  created: z.int().gte(0).meta({ description: "Seconds since 1970." }),
  model: z.string(),
  choices: z.array(z.strictObject({
    index: count,
    delta: deltaSchema,
    logprobs: logprobsSchema.nullable(),
    finish_reason: finishReason.nullable(),
  })).meta(TEXTS.data),
  usage: usageSchema.nullable().optional().meta({ description: "Of all choices, in the last chunk." }),
}).meta({ id: "ChatCompletionChunk", description: "A part of an answer, in OpenAI's form." });

export type ChatCompletionChunk = z.input<typeof chatChunkSchema>;

export type ChatCompletion = z.output<typeof chatCompletionAnswerSchema>;

/** The values of all chunks of an answer. */
export interface AnswerHead {
  id: string;
  created: number;
  model: string;
}

function logprobsOf(tokens: readonly ChatToken[]): z.output<typeof logprobsSchema> {
  const content = tokens.map(({ text, bytes, logprob }) => ({
    token: text,
    logprob,
    bytes,
    top_logprobs: [],
  }));
  return { content, refusal: null };
}

function toolCall(
  { id, name, arguments: args }: ChatDelta["calls"][number],
): z.output<typeof completionToolCallSchema> {
  return { id, type: "function", function: { name, arguments: args } };
}

interface Collected extends ChatDelta {
  finish: FinishReason;
}

/** The complete answer of events. */
export async function chatCompletion(
  events: AsyncIterable<ChatEvent>,
  { head, logprobs }: { head: AnswerHead; logprobs: boolean },
): Promise<ChatCompletion> {
  const choices: Collected[] = [];
  let prompt_tokens = 0, completion_tokens = 0;
  for await (const event of events) {
    if ("prompt_tokens" in event) {
      prompt_tokens = event.prompt_tokens;
      continue;
    }
    const choice = choices[event.choice] ??= {
      reasoning: "",
      content: "",
      calls: [],
      tokens: [],
      finish: "stop",
    };
    if ("finish" in event) {
      choice.finish = event.finish;
      completion_tokens += event.completion_tokens;
      continue;
    }
    const { reasoning, content, calls, tokens } = event.delta;
    choice.reasoning += reasoning;
    choice.content += content;
    choice.calls.push(...calls);
    choice.tokens.push(...tokens);
  }
  return {
    ...{ id: head.id, object: "chat.completion", created: head.created, model: head.model },
    choices: choices.map(({ reasoning, content, calls, tokens, finish }, index) => ({
      index,
      message: {
        role: "assistant",
        content: content === "" && calls.length > 0 ? null : content,
        refusal: null,
        ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
        ...(calls.length === 0 ? {} : { tool_calls: calls.map(toolCall) }),
      },
      logprobs: logprobs ? logprobsOf(tokens) : null,
      finish_reason: finish,
    })),
    usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
  };
}

/** The chunks of events, as the `data:` of a stream. */
export async function* chatChunks(
  events: AsyncIterable<ChatEvent>,
  { head, logprobs, usage }: { head: AnswerHead; logprobs: boolean; usage: boolean },
): AsyncGenerator<object> {
  const calls = new Map<number, number>();
  let prompt_tokens = 0, completion_tokens = 0;
  const chunk = (index: number, delta: object, more: object = {}) => ({
    ...{ id: head.id, object: "chat.completion.chunk", created: head.created, model: head.model },
    choices: [{ index, delta, logprobs: null, finish_reason: null, ...more }],
    ...(usage ? { usage: null } : {}),
  });
  for await (const event of events) {
    if ("prompt_tokens" in event) {
      prompt_tokens = event.prompt_tokens;
      continue;
    }
    const { choice } = event;
    if (!calls.has(choice)) {
      calls.set(choice, 0);
      yield chunk(choice, { role: "assistant", content: "", refusal: null });
    }
    if ("finish" in event) {
      completion_tokens += event.completion_tokens;
      yield chunk(choice, {}, { finish_reason: event.finish });
      continue;
    }
    const { reasoning, content, calls: new_calls, tokens } = event.delta, first = calls.get(choice)!;
    calls.set(choice, first + new_calls.length);
    const delta = {
      ...(reasoning === "" ? {} : { reasoning_content: reasoning }),
      ...(content === "" ? {} : { content }),
      ...(new_calls.length === 0 ? {} : {
        tool_calls: new_calls.map((call, i) => ({ index: first + i, ...toolCall(call) })),
      }),
    };
    yield chunk(choice, delta, logprobs ? { logprobs: logprobsOf(tokens) } : {});
  }
  if (!usage) return;
  const total_tokens = prompt_tokens + completion_tokens;
  yield { ...chunk(0, {}), choices: [], usage: { prompt_tokens, completion_tokens, total_tokens } };
}
