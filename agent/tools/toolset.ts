/** Toolsets: versioned lists of tools. A scenario gets all tools of one. */

import { openAiTool, type ToolDefinition, type ToolFunction } from "../../core/chat.ts";
import { ServiceError } from "../../core/errors.ts";
import type { Scenario } from "../../data/scenario.ts";
import { matchesSchema } from "./arguments.ts";
import { FILES_TOOLSET } from "./builtin/files.ts";

/** Definitions and result texts belong to a version of the toolset, not to a tool's name. */
export interface Toolset {
  name: string;
  version: string;
  tools: ToolFunction[];
}

const BUILTIN: Readonly<Record<string, Toolset>> = { files: FILES_TOOLSET };

/** The toolsets that an environment offers: keys of `[agent.environment]`. */
export interface ToolsetChoice {
  tools: { default?: string | undefined };
  scenario_toolsets: readonly string[];
}

/** The toolset with this name. @throws {ServiceError} `not_built`. */
export function toolsetByName(name: string): Toolset {
  const found = Object.hasOwn(BUILTIN, name) ? BUILTIN[name] : undefined;
  if (found) return found;
  throw new ServiceError("not_built", `Cannot use toolset ${JSON.stringify(name)}: ${notInThisBuild(name)}`);
}

function notInThisBuild(name: string): string {
  return `there is no toolset ${JSON.stringify(name)} in this build, which has ${
    Object.keys(BUILTIN).join(", ")
  }`;
}

/**
 * The toolset of a scenario: the one that it names, which must be the default or one of `scenario_toolsets`, else the
 * default.
 *
 * @throws {ServiceError} `data_invalid`, or `not_built` for a toolset that no configuration can offer. The details hold
 * only the scenario's line and the reason; a caller that knows the file adds its name.
 */
export function toolsetOf(scenario: Scenario, choice: ToolsetChoice): Toolset {
  const fallback = choice.tools.default;
  const name = scenario.env?.toolset ?? fallback;
  const refuse = (code: "data_invalid" | "not_built", reason: string) =>
    new ServiceError(
      code,
      `Cannot give tools to scenario ${JSON.stringify(scenario.id)} (line ${scenario.line}): ${reason}`,
      { line: scenario.line, reason },
    );
  if (name === undefined) {
    throw refuse(
      "data_invalid",
      "it names no toolset and the environment has no default: set agent.environment.tools.default",
    );
  }
  if (!Object.hasOwn(BUILTIN, name)) throw refuse("not_built", notInThisBuild(name));
  if (name === fallback || choice.scenario_toolsets.includes(name)) return toolsetByName(name);
  const reason = `toolset ${
    JSON.stringify(name)
  } is not offered: add it to agent.environment.scenario_toolsets`;
  throw refuse("data_invalid", reason);
}

/** An offered toolset as `svc tools list` prints it: the definitions exactly as in prompts. */
export interface ToolListing {
  toolset: string;
  version: string;
  default: boolean;
  tools: ToolDefinition[];
}

/** All toolsets that a configuration offers, the default first, without repetition. */
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
  tools: readonly ToolFunction[],
  call: { name: string; arguments: unknown },
): string | null {
  const tool = tools.find(({ name }) => name === call.name);
  if (!tool) return "error: unknown tool";
  return matchesSchema(tool.parameters, call.arguments) ? null : "error: bad arguments";
}
