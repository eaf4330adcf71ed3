/** The toolset `files`: read, write and list files of a workspace, and submit. */

import type { ToolFunction } from "../../../core/chat.ts";
import type { CallAnswer, ToolCall } from "../tool_host.ts";

const path = { type: "string" };

/** Names, descriptions, parameters and all orders are part of the version, because models were trained on this text. */
export const FILES_TOOLSET: { name: string; version: string; tools: ToolFunction[] } = {
  name: "files",
  version: "1",
  tools: [
    {
      name: "read_file",
      description: "Read a file.",
      parameters: { type: "object", properties: { path }, required: ["path"] },
    },
    {
      name: "write_file",
      description: "Write a file.",
      parameters: {
        type: "object",
        properties: { path, content: { type: "string" } },
        required: ["path", "content"],
      },
    },
    {
      name: "list_dir",
      description: "List a directory.",
      parameters: { type: "object", properties: { path }, required: ["path"] },
    },
    { name: "submit", description: "Finish the task.", parameters: { type: "object", properties: {} } },
  ],
};

/** Why a path of a workspace cannot be used. */
export class WorkspaceRefusal extends Error {
  constructor(readonly reason: "outside" | "absent" | "unusable") {
    super(reason);
  }
}

/** The files of a workspace; paths come from the model. Every method may throw {@link WorkspaceRefusal}. */
export interface WorkspaceFiles {
  read(path: string): Promise<string>;
  write(path: string, content: string): Promise<void>;
  list(path: string): Promise<{ name: string; directory: boolean }[]>;
}

const ERRORS: Record<string, string> = {
  read_file: "error: no such file",
  write_file: "error: cannot write",
  list_dir: "error: no such directory",
};

/** Executes a call that fits its definition. The result texts are part of the toolset's version. */
export async function runFilesTool(call: ToolCall, workspace: WorkspaceFiles): Promise<CallAnswer> {
  if (call.name === "submit") return { result: null, reward: null, done: true };
  const { path, content } = call.arguments as { path: string; content: string };
  const answer = (result: string): CallAnswer => ({ result, reward: null, done: false });
  try {
    if (call.name === "read_file") return answer(await workspace.read(path));
    if (call.name === "list_dir") return answer(listing(await workspace.list(path)));
    await workspace.write(path, content);
    return answer("ok");
  } catch (error) {
    if (!(error instanceof WorkspaceRefusal)) throw error;
    return answer(error.reason === "outside" ? "error: path outside workspace" : ERRORS[call.name]!);
  }
}

function listing(entries: { name: string; directory: boolean }[]): string {
  return entries
    .map((entry) => ({ ...entry, points: Array.from(entry.name, (char) => char.codePointAt(0)!) }))
    .sort((a, b) => compareCodePoints(a.points, b.points))
    .map(({ name, directory }) => directory ? `${name}/` : name)
    .join("\n");
}

function compareCodePoints(a: number[], b: number[]): number {
  const at = a.findIndex((point, i) => point !== b[i]);
  return at < 0 ? a.length - b.length : a[at]! - (b[at] ?? -1);
}
