/** Toolsets: versioned lists of tools that a scenario is given as a whole. */

import { ServiceError } from "../../core/errors.ts";
import { FILES_TOOLSET } from "./builtin/files.ts";
import type { Scenario } from "../scenario/scenario.ts";
import { matchesSchema } from "./arguments.ts";
import { type OpenAiTool, openAiTool, type ToolDefinition } from "./tool.ts";

/** Definitions and result texts belong to the toolset and its version, not to a tool's name. */
export interface Toolset {
  name: string;
  version: string;
  tools: ToolDefinition[];
}

const BUILTIN: Readonly<Record<string, Toolset>> = { files: FILES_TOOLSET };

/** Which toolsets an environment offers: keys of `[agent.environment]`. */
export interface ToolsetChoice {
  tools: { default?: string | undefined };
  scenario_toolsets: readonly string[];
}

/** The toolset of a name. @throws {ServiceError} `not_built`. */
export function toolsetByName(name: string): Toolset {
  const found = Object.hasOwn(BUILTIN, name) ? BUILTIN[name] : undefined;
  if (found) return found;
  const known = Object.keys(BUILTIN).join(", ");
  throw new ServiceError("not_built", `Cannot use toolset "${name}": this build has ${known}`);
}

/**
 * The toolset of a scenario: the one that it names, which must be the default or one of `scenario_toolsets`, else
 * the default.
 *
 * @throws {ServiceError} `data_invalid`, naming the scenario's line.
 */
export function toolsetOf(scenario: Scenario, choice: ToolsetChoice): Toolset {
  const named = scenario.env?.toolset ?? null;
  const fallback = choice.tools.default;
  if (named !== null && (named === fallback || choice.scenario_toolsets.includes(named))) {
    return toolsetByName(named);
  }
  if (named === null && fallback !== undefined) return toolsetByName(fallback);
  const reason = named === null
    ? "it names no toolset and the environment has no default: set agent.environment.tools.default"
    : `toolset "${named}" is not offered: add it to agent.environment.scenario_toolsets`;
  throw new ServiceError(
    "data_invalid",
    `Cannot give tools to scenario ${JSON.stringify(scenario.id)} (line ${scenario.line}): ${reason}`,
    { line: scenario.line },
  );
}

/** One offered toolset as `svc tools list` prints it: the definitions exactly as they stand in prompts. */
export interface ToolListing {
  toolset: string;
  version: string;
  default: boolean;
  tools: OpenAiTool[];
}

/** Every toolset that a configuration offers, the default first, each once. */
export function listTools(environment: ToolsetChoice | undefined): ToolListing[] {
  if (!environment) return [];
  const { tools: { default: fallback }, scenario_toolsets } = environment;
  const names = new Set([...fallback === undefined ? [] : [fallback], ...scenario_toolsets]);
  return [...names].map((name) => {
    const { version, tools } = toolsetByName(name);
    return { toolset: name, version, default: name === fallback, tools: tools.map(openAiTool) };
  });
}

/** The result that tells the model what is wrong with a call; null when it can be executed. */
export function checkCall(
  tools: readonly ToolDefinition[],
  call: { name: string; arguments: unknown },
): string | null {
  const tool = tools.find(({ name }) => name === call.name);
  if (!tool) return "error: unknown tool";
  return matchesSchema(tool.parameters, call.arguments) ? null : "error: bad arguments";
}
