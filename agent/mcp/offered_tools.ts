/** Which tools of a server a model may call, and under which names and schemas. */

import { matchesAnyPattern } from "../../config/sections/mcp.ts";
import { nearestName } from "../../config/text/nearest.ts";
import { SchemaRefusal } from "../../core/argument_schema.ts";
import type { ToolFunction } from "../../core/chat.ts";
import { isJsonObject } from "../../core/json.ts";
import { fullSchema } from "../tools/arguments.ts";
import { shortName } from "../tools/tool_host.ts";
import type { ListedTool } from "./sdk.ts";

/** The longest description of a tool. */
export const MAX_DESCRIPTION_CHARS = 16_384;

/** A tool of a server. */
export interface OfferedTool {
  /** As the model sees it. */
  tool: ToolFunction;
  /** Its name on the server. */
  name: string;
}

/** The keys of a server that choose among its tools. */
export interface ToolChoice {
  allowed_tools?: readonly string[] | undefined;
  denied_tools: readonly string[];
}

/**
 * The tools that are allowed and not denied, in the order of their names. A name that a model cannot call gets `_` for
 * each of its other characters.
 *
 * @param notice Told, in words that follow the server's name, of allowed names that no tool has.
 * @throws When a denied name is that of no tool, a schema cannot be used, or two tools have one name; the message names
 * the tool.
 */
export function offeredTools(
  listed: readonly ListedTool[],
  choice: ToolChoice,
  notice: (text: string) => void,
): OfferedTool[] {
  const { allowed_tools, denied_tools } = choice;
  // A mistyped name here would offer the tool that it means.
  const denied = unknownNames("denied_tools", denied_tools, listed);
  if (denied !== null) throw new Error(denied);
  const allowed = unknownNames("allowed_tools", allowed_tools ?? [], listed);
  if (allowed !== null) notice(allowed);
  const chosen = listed.filter(({ name }) =>
    (!allowed_tools || matchesAnyPattern(allowed_tools, name)) && !matchesAnyPattern(denied_tools, name)
  );
  const tools = chosen.map(offered).sort((a, b) => a.tool.name < b.tool.name ? -1 : 1);
  const twice = tools.find(({ tool }, i) => tool.name === tools[i + 1]?.tool.name);
  if (!twice) return tools;
  throw new Error(
    `it has two tools with the name ${JSON.stringify(twice.tool.name)}; deny them with denied_tools`,
  );
}

/** What is wrong with the names of a key, patterns aside; null: nothing. */
function unknownNames(key: string, given: readonly string[], listed: readonly ListedTool[]): string | null {
  const names = listed.map(({ name }) => name);
  const unknown = given.filter((name) => !name.includes("*") && !names.includes(name));
  if (unknown.length === 0) return null;
  const shown = unknown.map((name) => JSON.stringify(name)).join(" and ");
  const near = unknown.flatMap((name) => nearestName(name, names) ?? []);
  const hint = near.length === 0
    ? ""
    : `; did you mean ${near.map((name) => JSON.stringify(name)).join(" and ")}?`;
  return `${key} has ${shown}, and it has no such tool${unknown.length === 1 ? "" : "s"}${hint}`;
}

function offered({ name, description = "", inputSchema }: ListedTool): OfferedTool {
  const refuse = (reason: string) =>
    new Error(
      `its tool ${
        JSON.stringify(name.slice(0, 100))
      } cannot be offered: ${reason}; deny it with denied_tools`,
    );
  if (name === "") throw refuse("it has no name");
  if (description.length > MAX_DESCRIPTION_CHARS) {
    throw refuse(`its description has ${description.length} characters, more than ${MAX_DESCRIPTION_CHARS}`);
  }
  if (!isJsonObject(inputSchema) || inputSchema.type !== "object") {
    throw refuse("its schema is not that of an object");
  }
  try {
    const parameters = fullSchema(inputSchema, "leave_out");
    return { tool: { name: shortName(name), description: description.toWellFormed(), parameters }, name };
  } catch (error) {
    if (!(error instanceof SchemaRefusal)) throw error;
    throw refuse(`its schema cannot be used: ${error.message}`);
  }
}
