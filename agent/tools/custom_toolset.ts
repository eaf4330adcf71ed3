/** Toolsets of a configuration: built-in tools and programs of the operator. */

import { builtinTool, type CustomToolConfig, type ToolsetConfig } from "../../config/sections/environment.ts";
import type { JsonSchema, ToolFunction } from "../../core/chat.ts";
import { assert, ServiceError } from "../../core/errors.ts";
import { isJsonObject } from "../../core/json.ts";
import { fullSchema } from "./arguments.ts";
import { runTool, streamTexts } from "./command_text.ts";
import { type CommandResult, wasStarted } from "./sandbox.ts";
import type { ToolsetAnswer } from "./tool_host.ts";
import type { Toolset, ToolsetCall } from "./toolset.ts";

/** A tool with what executes it. */
interface ResolvedTool {
  definition: ToolFunction;
  run(request: ToolsetCall): Promise<ToolsetAnswer>;
}

/**
 * A toolset of the configuration.
 *
 * @param builtin The built-in toolsets, by name.
 * @throws {SchemaRefusal} For parameters that a loaded configuration does not have.
 */
export function customToolset(
  name: string,
  { version, tools }: ToolsetConfig,
  builtin: Readonly<Record<string, Toolset>>,
): Toolset {
  const resolved = tools.map((tool) =>
    typeof tool === "string" ? builtinTools(tool, builtin) : programTool(tool)
  );
  const by_name = new Map(resolved.map((tool) => [tool.definition.name, tool]));
  return {
    name,
    version: String(version),
    tools: resolved.map(({ definition }) => definition),
    run(request) {
      const tool = by_name.get(request.call.name);
      assert(tool, `the toolset ${name} has the tool ${request.call.name}`);
      return tool.run(request);
    },
  };
}

function builtinTools(name: string, builtin: Readonly<Record<string, Toolset>>): ResolvedTool {
  const found = builtinTool(name), toolset = found && builtin[found.toolset];
  const definition = toolset?.tools.find((tool) => tool.name === found!.tool);
  assert(toolset && definition, `a loaded configuration names built-in tools: ${name}`);
  return { definition, run: (request) => toolset.run(request) };
}

/** A program that reads the arguments as one JSON document, and writes the result. */
function programTool({ name, description, parameters, command }: CustomToolConfig): ResolvedTool {
  return {
    definition: { name, description, parameters: fullSchema(ordered(parameters) as JsonSchema) },
    async run({ call, sandbox, signal }) {
      signal.throwIfAborted();
      const stdin = `${JSON.stringify(call.arguments)}\n`;
      let result: CommandResult;
      try {
        result = await runTool({ argv: command, stdin }, sandbox, signal);
      } catch (error) {
        if (!(error instanceof ServiceError)) throw error;
        if (error.details.no_program) {
          return { result: `error: ${error.message}`, reward: null, done: false, not_started: command };
        }
        const message = `Cannot run the tool ${name}: ${error.message}`;
        throw new ServiceError("tool_failed", message, {}, { cause: error });
      }
      signal.throwIfAborted();
      return {
        ...{ result: resultText(result), reward: null, done: false },
        ...!wasStarted(result) && { not_started: command },
      };
    },
  };
}

/** The first keywords of a schema; others follow by name. */
const FIRST_KEYWORDS = [
  "type",
  "description",
  "enum",
  "properties",
  "required",
  "additionalProperties",
  "items",
];

/** Keywords whose keys are names, or whose values are no schemas. */
const NAMED = ["properties", "patternProperties", "dependentSchemas", "$defs", "definitions"];
const PLAIN = ["enum", "const", "default", "examples", "required", "dependentRequired"];

/**
 * A schema with its keywords in one order, because the prompt's text depends on it, and a file that is written again may
 * have another. Names of properties keep theirs.
 */
function ordered(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(ordered);
  if (!isJsonObject(schema)) return schema;
  const rank = (keyword: string) => (FIRST_KEYWORDS.indexOf(keyword) + 1) || FIRST_KEYWORDS.length + 1;
  const keywords = Object.keys(schema).sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  return Object.fromEntries(keywords.map((keyword) => {
    const value = schema[keyword];
    if (PLAIN.includes(keyword)) return [keyword, value];
    if (!NAMED.includes(keyword) || !isJsonObject(value)) return [keyword, ordered(value)];
    return [keyword, Object.fromEntries(Object.entries(value).map(([name, part]) => [name, ordered(part)]))];
  }));
}

function resultText(result: CommandResult): string {
  const { stdout, stderr } = streamTexts(result);
  if (result.code === 0) return stdout;
  if (result.ended === "timeout") return "error: the tool ran past the time limit";
  if (result.ended !== "exited") return "error: the tool was killed";
  return `error: ${stderr || stdout || `exit status ${result.code}`}`;
}
