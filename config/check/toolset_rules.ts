/** Rules about the toolsets of an environment. */

import { argumentSchema, SchemaRefusal } from "../../core/argument_schema.ts";
import { ENVIRONMENT_KINDS } from "../environments.ts";
import type { EnvironmentConfig } from "../schema.ts";
import {
  BUILTIN_TOOL_NAMES,
  BUILTIN_TOOLSETS,
  builtinTool,
  type ToolsetConfig,
} from "../sections/environment.ts";
import { nearestName } from "../text/nearest.ts";

/** A broken rule about a key of the configuration. */
interface ToolsetProblem {
  key: string;
  message: string;
  missing?: true;
  hint?: string;
}

const DEFAULT_KEY = "agent.environment.tools.default";
const toolsetKey = (name: string) => `agent.environment.toolsets.${name}`;

/** The broken rules about which toolsets there are, and which are offered. */
export function toolsetProblems(environment: EnvironmentConfig): ToolsetProblem[] {
  const { id, type, profile, tools, scenario_toolsets, toolsets } = environment;
  const custom = Object.entries(toolsets).flatMap(([name, toolset]) => customProblems(name, toolset));
  const has_own_tools = type !== undefined && ENVIRONMENT_KINDS[type].has_own_tools;
  if (!id && !has_own_tools && !profile && !tools.default && scenario_toolsets.length === 0) {
    const message = "is missing: without it and without scenario_toolsets no scenario has a tool";
    return [{ key: DEFAULT_KEY, message, missing: true }, ...custom];
  }
  const known = [...BUILTIN_TOOLSETS, ...Object.keys(toolsets)];
  const named = scenario_toolsets.map((name, i) => ({
    key: `agent.environment.scenario_toolsets.${i}`,
    name,
  }));
  if (tools.default !== undefined) named.push({ key: DEFAULT_KEY, name: tools.default });
  const unknown = named.filter(({ name }) => !known.includes(name)).map(({ key, name }) => ({
    key,
    message: `names the unknown toolset "${name}": there are ${known.join(", ")}`,
    ...nearHint(name, known),
  }));
  return [...unknown, ...custom];
}

function nearHint(name: string, known: readonly string[]): { hint?: string } {
  const near = nearestName(name, known);
  return near === null ? {} : { hint: `did you mean "${near}"?` };
}

function customProblems(name: string, { tools }: ToolsetConfig): ToolsetProblem[] {
  const key = toolsetKey(name);
  if (BUILTIN_TOOLSETS.some((builtin) => builtin === name)) {
    return [{ key, message: `"${name}" is the name of a built-in toolset`, hint: "choose another name" }];
  }
  const named = tools.map((tool) => typeof tool === "string" ? builtinTool(tool)?.tool ?? tool : tool.name);
  return tools.flatMap((tool, i): ToolsetProblem[] => {
    const at = `${key}.tools.${i}`;
    const first = named.indexOf(named[i]!);
    const repeated = first < i
      ? [{
        key: at,
        message: `"${named[i]}" is the name of two tools, here and at ${first}`,
        hint: "rename one",
      }]
      : [];
    return [...repeated, ...typeof tool === "string" ? builtinProblems(at, tool) : schemaProblems(at, tool)];
  });
}

function builtinProblems(key: string, name: string): ToolsetProblem[] {
  if (builtinTool(name)) return [];
  return [{
    key,
    message: `names no built-in tool: "${name}"; there are ${BUILTIN_TOOL_NAMES.join(", ")}`,
    ...nearHint(name, BUILTIN_TOOL_NAMES),
  }];
}

function schemaProblems(at: string, { parameters }: { parameters: unknown }): ToolsetProblem[] {
  const key = `${at}.parameters`;
  try {
    const { root } = argumentSchema(parameters);
    if (typeof root === "object" && root.type === "object") return [];
    return [{ key, message: 'must have type = "object": the arguments of a call are an object' }];
  } catch (error) {
    if (!(error instanceof SchemaRefusal)) throw error;
    return [{ key, message: `is no JSON Schema that can be used: ${error.message}` }];
  }
}
