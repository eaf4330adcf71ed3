/** What an environment server answers with, and the checks of it. All of it is untrusted. */

import { z } from "zod";
import { describeIssue } from "../../config/check/data_issues.ts";
import { SchemaRefusal } from "../../core/argument_schema.ts";
import type { ToolFunction } from "../../core/chat.ts";
import { isJsonObject } from "../../core/json.ts";
import { fullSchema } from "../tools/arguments.ts";

/** The greatest size of a step's reward, above or below 0. */
export const MAX_STEP_REWARD = 1e6;

/** The most characters of an environment's id. */
export const MAX_ENV_ID_CHARS = 256;

/** The most tools of a server. */
export const MAX_SERVER_TOOLS = 256;

/** An answer that does not have its form. The message completes "… answered with". */
export class AnswerProblem extends Error {}

/** A path may end with the id, so it is neither "." nor "..". */
const envIdSchema = z.string().min(1).max(MAX_ENV_ID_CHARS).refine(
  (id) => id.isWellFormed() && id !== "." && id !== "..",
  { error: "env_id: cannot be part of a path" },
);

/** Any value, but not none. */
const anything = z.custom<unknown>((value) => value !== undefined, { error: "is missing" });

const resetSchema = z.object({ env_id: envIdSchema, observation: anything });

const stepSchema = z.object({
  result: anything,
  reward: z.number().gte(-MAX_STEP_REWARD).lte(MAX_STEP_REWARD).nullable(),
  done: z.boolean(),
});

const toolName = z.string().regex(/^[A-Za-z0-9_./:-]{1,128}$/, {
  error: "a tool's name has up to 128 letters, digits, '_', '-', '.', '/' and ':'",
});
const schemaObject = z.custom<Record<string, unknown>>(isJsonObject, { error: "must be an object" });
const mcpTool = z.object({
  name: toolName,
  description: z.string().nullish(),
  inputSchema: schemaObject.nullish(),
}).transform(({ inputSchema, ...tool }) => toolFunction({ ...tool, parameters: inputSchema }));
const openAiForm = z.object({
  type: z.literal("function"),
  function: z.object({
    name: toolName,
    description: z.string().nullish(),
    parameters: schemaObject.nullish(),
  }).transform(toolFunction),
}).transform((tool) => tool.function);
const toolsSchema = z.object({ tools: z.array(z.unknown()).max(MAX_SERVER_TOOLS) });

/** The answer to `POST /reset`. */
export type ResetAnswer = z.output<typeof resetSchema>;
/** The answer to `POST /step`. */
export type StepAnswer = z.output<typeof stepSchema>;

/** @throws {AnswerProblem} */
export const resetAnswer = (value: unknown): ResetAnswer => parsed(resetSchema, value);

/** @throws {AnswerProblem} */
export const stepAnswer = (value: unknown): StepAnswer => parsed(stepSchema, value);

/** The id of the environment that a reset has made, also where the rest of the answer is wrong; null: none. */
export function madeEnvironment(value: unknown): string | null {
  const found = z.object({ env_id: envIdSchema }).safeParse(value);
  return found.success ? found.data.env_id : null;
}

/** The tools of `GET /tools`, each in the MCP or the OpenAI form. @throws {AnswerProblem} */
export function toolsAnswer(value: unknown): ToolFunction[] {
  const tools = parsed(toolsSchema, value).tools.map(toolOf);
  const names = tools.map(({ name }) => name);
  const repeated = names.find((name, i) => names.indexOf(name) < i);
  if (repeated !== undefined) throw new AnswerProblem(`two tools with the name ${JSON.stringify(repeated)}`);
  return tools;
}

function toolOf(value: unknown, i: number): ToolFunction {
  const is_open_ai = isJsonObject(value) && "function" in value;
  const tool = parsed<ToolFunction>(is_open_ai ? openAiForm : mcpTool, value, `tools.${i}.`);
  const refuse = (problem: string) =>
    new AnswerProblem(`a wrong schema of the tool ${tool.name}: ${problem}`);
  const { type = "object" } = tool.parameters;
  if (type !== "object") throw refuse('parameters must have the type "object"');
  try {
    fullSchema(tool.parameters, "leave_out");
    return tool;
  } catch (error) {
    throw error instanceof SchemaRefusal ? refuse(error.message) : error;
  }
}

function toolFunction(
  { name, description, parameters }: {
    name: string;
    description?: string | null | undefined;
    parameters?: Record<string, unknown> | null | undefined;
  },
): ToolFunction {
  return {
    name,
    description: (description ?? "").toWellFormed(),
    parameters: parameters ?? { type: "object", properties: {} },
  };
}

function parsed<T>(schema: z.ZodType<T>, value: unknown, place = ""): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new AnswerProblem(`a wrong field: ${place}${describeIssue(result.error.issues[0]!, value)}`);
}

/** A value as text for the model: a string as it is, anything else as JSON. */
export function shownValue(value: unknown): string {
  return (typeof value === "string" ? value : JSON.stringify(value)).toWellFormed();
}
