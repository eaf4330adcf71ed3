/** Messages and tools of core/chat.ts as schemas, for requests and files. Other forms are derived from these. */

import { z } from "zod";
import { callArguments, ROLES } from "./chat.ts";
import { isJsonObject } from "./json.ts";

/** An object with any keys. It is passed on as it is; `z.record` would drop `__proto__` without a word. */
export const anyObject = z.unknown().refine(isJsonObject, { error: "must be an object" })
  .meta({ type: "object" }) as unknown as z.ZodType<Record<string, unknown>>;

/** A `ChatToolCall`, without other fields. */
export const chatToolCallSchema = z.strictObject({
  id: z.string().optional(),
  type: z.literal("function").optional(),
  function: z.strictObject({
    name: z.string(),
    arguments: z.union([z.string(), anyObject]).refine((given) => callArguments(given) !== null, {
      error: "must be a JSON object, or one as text",
    }).meta({ description: "An object, or its JSON text." }),
  }),
}).meta({ id: "ToolCall" });

/** A `ChatMessage`, without other fields. */
export const chatMessageSchema = z.strictObject({
  role: z.enum(ROLES),
  content: z.string().nullable().optional(),
  reasoning_content: z.string().nullable().optional().meta({
    description: "Thinking before the content.",
  }),
  tool_calls: z.array(chatToolCallSchema).nullable().optional(),
  tool_call_id: z.string().optional().meta({ description: "In a tool's message: the call that it answers." }),
  name: z.string().optional(),
}).meta({ id: "Message" });

/** A `Message` of this program's form; other fields are left out. */
export const messageSchema = chatMessageSchema.strip().extend({
  content: z.string(),
  reasoning_content: z.string().optional(),
  tool_calls: z.array(
    chatToolCallSchema.strip().extend({
      type: z.literal("function"),
      function: chatToolCallSchema.shape.function.strip().extend({ arguments: anyObject }),
    }),
  ).optional(),
});

/** A `ToolDefinition` whose description and parameters may be absent, without other fields. */
export const toolSchema = z.strictObject({
  type: z.literal("function"),
  function: z.strictObject({
    name: z.string().min(1),
    description: z.string().optional(),
    parameters: anyObject.optional(),
  }),
});

const { name, description } = toolSchema.shape.function.shape;

/** A tool in the form of the Model Context Protocol, without other fields. */
export const mcpToolSchema = z.strictObject({ name, description, inputSchema: anyObject.optional() });
