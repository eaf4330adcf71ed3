/** Built-in tools: a definition and what a call does, from which toolsets are put together. */

import type { ToolFunction } from "../../core/chat.ts";
import { assert } from "../../core/errors.ts";
import type { Sandbox } from "./sandbox.ts";
import type { Toolset } from "./toolset.ts";
import { refusalText, WorkspaceRefusal } from "./workspace_files.ts";

/** A tool whose definition and texts belong to the toolsets that have it. */
export interface BuiltinTool {
  definition: ToolFunction;
  /**
   * The result of a call that fits the definition; null ends the attempt.
   *
   * @throws {ServiceError} When the sandbox fails.
   */
  run(args: never, sandbox: Sandbox, signal: AbortSignal): Promise<string | null>;
}

/** A parameter that is text. */
export const textParameter = (description: string) => ({ type: "string", description });

/** A parameter that is a whole number of at least 1. */
export const countParameter = (description: string) => ({ type: "integer", minimum: 1, description });

/** A definition; every parameter that is not in `optional` is required. */
export function defineTool(
  { name, description, parameters, optional = [] }: {
    name: string;
    description: string;
    parameters: Readonly<Record<string, object>>;
    optional?: readonly string[];
  },
): ToolFunction {
  const required = Object.keys(parameters).filter((key) => !optional.includes(key));
  return {
    name,
    description,
    parameters: { type: "object", properties: parameters, ...(required.length > 0 && { required }) },
  };
}

/** A toolset of built-in tools. */
export function toolsetFrom(
  { name, version, tools }: { name: string; version: string; tools: readonly BuiltinTool[] },
): Toolset {
  return {
    name,
    version,
    tools: tools.map(({ definition }) => definition),
    async run({ call, sandbox, signal }) {
      signal.throwIfAborted();
      const tool = tools.find(({ definition }) => definition.name === call.name);
      assert(tool, `the toolset ${name} has the tool ${call.name}`);
      const result = await tool.run(call.arguments as never, sandbox, signal);
      signal.throwIfAborted();
      return { result, reward: null, done: result === null };
    },
  };
}

/** The tool that ends an attempt. */
export const SUBMIT: BuiltinTool = {
  definition: defineTool({
    name: "submit",
    description: "Say that the task is finished. Nothing can be changed after it.",
    parameters: {},
  }),
  run: () => Promise.resolve(null),
};

/**
 * The result of using a path. What is wrong with the path is a text for the model.
 *
 * @param absent The text for a path where nothing of the wanted kind is.
 */
export async function onPath(
  absent: string,
  use: () => Promise<string>,
): Promise<string> {
  try {
    return await use();
  } catch (error) {
    if (!(error instanceof WorkspaceRefusal)) throw error;
    const { reason } = error;
    return refusalText(reason) ?? (reason === "outside" ? "error: path outside the workspace" : absent);
  }
}

/** What a path names; the sandbox refuses one that leads outside. */
async function kindOf(path: string, sandbox: Sandbox): Promise<"directory" | "file"> {
  try {
    await sandbox.list(path);
    return "directory";
  } catch (error) {
    if (!(error instanceof WorkspaceRefusal)) throw error;
    if (error.reason === "too_large") return "directory";
    if (error.reason !== "absent") throw error;
  }
  try {
    await sandbox.read(path);
  } catch (error) {
    if (!(error instanceof WorkspaceRefusal) || error.reason !== "too_large") throw error;
  }
  return "file";
}

/**
 * Uses a path in a program of the sandbox when it names a file or a directory of the workspace. The program could find
 * another one there if something changed a link meanwhile.
 */
export function onProgramPath(
  path: string,
  sandbox: Sandbox,
  use: (path: string, kind: "directory" | "file") => Promise<string>,
): Promise<string> {
  return onPath("error: no such file or directory", async () => {
    const kind = await kindOf(path, sandbox);
    // An option of the program cannot begin like this.
    return await use(path.startsWith("/") ? path : `./${path}`, kind);
  });
}
