/** Toolsets: versioned lists of tools, and their execution in a workspace. */

import type { ToolCall, ToolFunction } from "../../core/chat.ts";
import { argumentProblem } from "./arguments.ts";
import type { Sandbox } from "./sandbox.ts";
import type { ToolCatalog, ToolsetAnswer } from "./tool_host.ts";

/** A call, and where it acts. */
export interface ToolsetCall {
  call: ToolCall;
  sandbox: Sandbox;
  signal: AbortSignal;
}

/**
 * A scenario gets all tools of one toolset. Definitions and result texts belong to a version of the toolset, not to a
 * tool's name.
 */
export interface Toolset extends ToolCatalog {
  /**
   * Executes a call that fits its definition.
   *
   * @throws {ServiceError} `tool_failed` when the tool fails. An error for the model is a result.
   */
  run(request: ToolsetCall): Promise<ToolsetAnswer>;
}

/** The result that tells the model what is wrong with a call; null when it can be executed. */
export function checkCall(
  tools: readonly ToolFunction[],
  call: { name: string; arguments: unknown },
): string | null {
  const tool = tools.find(({ name }) => name === call.name);
  if (!tool) return "error: unknown tool";
  const problem = argumentProblem(tool.parameters, call.arguments);
  return problem === null ? null : `error: ${problem}`;
}
