/** The body of a chat completion, in OpenAI's form. */

import { z } from "zod";
import {
  callArguments,
  type ChatMessage,
  type JsonSchema,
  type Message,
  normalizeMessages,
  type ToolDefinition,
} from "../../core/chat.ts";
import { anyObject, chatToolCallSchema, toolSchema } from "../../core/chat_schema.ts";
import { isJsonObject } from "../../core/json.ts";
import { type ChatRequest, MAX_CHOICES } from "../../runs/chat/chat_request.ts";

/** The most stop texts, and the most characters of one. */
const MAX_STOPS = 4, MAX_STOP_CHARS = 256;

/** The most tools of a request. */
const MAX_TOOLS = 128;

const textPart = z.strictObject({ type: z.literal("text"), text: z.string() });

const content = z.union([z.string(), z.array(textPart).min(1)], {
  error: "must be text, or a list of text parts",
});

const name = z.string().min(1).max(64).optional();

const completionToolCall = chatToolCallSchema.extend({
  id: z.string().min(1),
  type: z.literal("function"),
  function: chatToolCallSchema.shape.function.extend({
    name: z.string().min(1),
    arguments: z.string().refine((text) => callArguments(text) !== null, {
      error: "must be a JSON object as text",
    }),
  }),
});

const nothing = z.null().optional().meta({ description: "Accepted as clients send it back; has no effect." });

/** The fields of an assistant's message that clients send back. */
const assistantMessage = z.strictObject({
  role: z.literal("assistant"),
  content: content.nullable().optional(),
  reasoning_content: z.string().nullable().optional().meta({
    description: "The thinking before the content.",
  }),
  tool_calls: z.array(completionToolCall).nullable().optional(),
  name,
  refusal: nothing,
  audio: nothing,
  function_call: nothing,
  annotations: z.array(z.never()).nullable().optional(),
});

const chatCompletionMessageSchema = z.discriminatedUnion("role", [
  z.strictObject({ role: z.literal("system"), content, name }),
  z.strictObject({ role: z.literal("developer"), content, name }).meta({
    description: "The same as system.",
  }),
  z.strictObject({ role: z.literal("user"), content, name }),
  assistantMessage,
  z.strictObject({ role: z.literal("tool"), content, tool_call_id: z.string().min(1), name }),
]).meta({ id: "ChatMessage", description: "A message in OpenAI's form; text only." });

const tool = toolSchema.extend({
  function: toolSchema.shape.function.extend({
    name: z.string().regex(/^[a-zA-Z0-9_.-]{1,64}$/),
    strict: z.literal(false).nullable().optional().meta({ description: "Arguments are not enforced." }),
  }),
}).meta({ id: "ChatTool" });

const responseFormat = z.discriminatedUnion("type", [
  z.strictObject({ type: z.literal("text") }),
  z.strictObject({ type: z.literal("json_object") }),
  z.strictObject({
    type: z.literal("json_schema"),
    json_schema: z.strictObject({
      name: z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/),
      description: z.string().optional(),
      schema: anyObject,
      strict: z.boolean().nullable().optional().meta({ description: "The schema is always enforced." }),
    }),
  }),
]);

const zero = z.literal(0, { error: "is not supported: must be 0" }).nullable().optional();

/** Parameters that have no effect on the text. */
const ignored = {
  user: z.string().nullable().optional(),
  metadata: z.record(z.string(), z.string()).nullable().optional(),
  store: z.literal(false, { error: "is not supported: must be false" }).nullable().optional(),
  service_tier: z.enum(["auto", "default"]).nullable().optional(),
  safety_identifier: z.string().nullable().optional(),
  prompt_cache_key: z.string().nullable().optional(),
};

const maxTokens = z.int().gte(1).nullable().optional().meta({
  description: "The most tokens of an answer. Absent: as many as the context has room for.",
});

const count = z.int().gte(1).lte(MAX_CHOICES).nullable().optional().meta({
  description: "The number of answers; 1 by default.",
});

const stopText = z.string().min(1).max(MAX_STOP_CHARS);

export const chatCompletionSchema = z.strictObject({
  model: z.string().meta({ description: "<run id>, <run id>@<checkpoint> or <run id>@base." }),
  messages: z.array(chatCompletionMessageSchema).min(1),
  tools: z.array(tool).max(MAX_TOOLS).nullable().optional(),
  tool_choice: z.enum(["auto", "none"]).nullable().optional().meta({ description: "auto by default." }),
  parallel_tool_calls: z.boolean().nullable().optional().meta({
    description: "false ends an answer after its first call.",
  }),
  max_tokens: maxTokens,
  max_completion_tokens: maxTokens,
  temperature: z.number().gte(0).lte(2).nullable().optional().meta({ description: "1 by default." }),
  top_p: z.number().gt(0).lte(1).nullable().optional().meta({ description: "1 by default." }),
  seed: z.int().gte(0).nullable().optional().meta({
    description: "The same seed gives the same answer. Absent: a random one.",
  }),
  n: count,
  stop: z.union([stopText, z.array(stopText).max(MAX_STOPS)], {
    error: `must be a text of at most ${MAX_STOP_CHARS} characters, or at most ${MAX_STOPS} of them`,
  }).nullable().optional(),
  logprobs: z.boolean().nullable().optional(),
  top_logprobs: zero.meta({ description: "Only the sampled token is returned." }),
  response_format: responseFormat.nullable().optional(),
  stream: z.boolean().nullable().optional(),
  stream_options: z.strictObject({
    include_usage: z.boolean().nullable().optional(),
    include_obfuscation: z.literal(false).nullable().optional(),
  }).nullable().optional(),
  frequency_penalty: zero,
  presence_penalty: zero,
  logit_bias: z.strictObject({}).nullable().optional(),
  ...ignored,
}).superRefine((body, context) => {
  const refuse = (path: string[], message: string) =>
    context.addIssue({ code: "custom", path, message, input: body });
  if (typeof body.max_tokens === "number" && typeof body.max_completion_tokens === "number") {
    refuse(["max_tokens"], "must be absent beside max_completion_tokens, which says the same");
  }
  const { type = "text" } = body.response_format ?? {};
  if (type !== "text" && body.tools?.length && body.tool_choice !== "none") {
    refuse(
      ["response_format"],
      'cannot be enforced beside tools: leave tools out, or set tool_choice to "none"',
    );
  }
  if (body.stream_options && !body.stream) refuse(["stream_options"], "must be absent without stream");
}, { when: ({ value }) => isJsonObject(value) }).meta({ id: "ChatCompletionRequest" });

type ChatCompletionRequest = z.output<typeof chatCompletionSchema>;

function textOf(given: z.output<typeof content> | null | undefined): string {
  return typeof given === "string" ? given : (given ?? []).map(({ text }) => text).join("");
}

function chatMessage(message: z.output<typeof chatCompletionMessageSchema>): ChatMessage {
  const { role, content, name } = message, named = name === undefined ? {} : { name };
  const said = { content: textOf(content), ...named };
  if (role === "tool") return { role, ...said, tool_call_id: message.tool_call_id };
  if (role !== "assistant") return { role: role === "developer" ? "system" : role, ...said };
  const { tool_calls, reasoning_content } = message;
  return { role, ...said, tool_calls: tool_calls ?? null, reasoning_content: reasoning_content ?? null };
}

/** The messages in this program's form. A tool's answer gets the tool's name, which OpenAI's form has only at the call. */
function messagesOf(given: ChatCompletionRequest["messages"]): Message[] {
  const messages = normalizeMessages(given.map(chatMessage));
  const names = new Map<string, string>();
  return messages.map((message) => {
    for (const { id, function: called } of message.tool_calls ?? []) {
      if (id !== undefined) names.set(id, called.name);
    }
    const called = names.get(message.tool_call_id ?? "");
    return message.role === "tool" && message.name === undefined && called !== undefined
      ? { ...message, name: called }
      : message;
  });
}

function toolDefinition(
  { function: { name, description, parameters } }: z.output<typeof tool>,
): ToolDefinition {
  return {
    type: "function",
    function: {
      name,
      ...(description === undefined ? {} : { description }),
      parameters: (parameters as JsonSchema | undefined) ?? { type: "object", properties: {} },
    },
  };
}

function schemaOf({ response_format }: ChatCompletionRequest): string | null {
  if (!response_format || response_format.type === "text") return null;
  return JSON.stringify(
    response_format.type === "json_object" ? { type: "object" } : response_format.json_schema.schema,
  );
}

/** The request of a body. @param random_seed The seed of a body without one. */
export function chatRequestOf(body: ChatCompletionRequest, random_seed: number): ChatRequest {
  const { tools, tool_choice, stop } = body;
  return {
    messages: messagesOf(body.messages),
    tools: tool_choice === "none" ? [] : (tools ?? []).map(toolDefinition),
    choices: body.n ?? 1,
    max_tokens: body.max_completion_tokens ?? body.max_tokens ?? null,
    temperature: body.temperature ?? 1,
    top_p: body.top_p ?? 1,
    seed: body.seed ?? random_seed,
    stop: typeof stop === "string" ? [stop] : stop ?? [],
    one_call: body.parallel_tool_calls === false,
    schema: schemaOf(body),
    logprobs: body.logprobs ?? false,
    stream: body.stream ?? false,
  };
}
