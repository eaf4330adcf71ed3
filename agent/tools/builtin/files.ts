/** The toolset `files`: read, write and list files of a workspace, and submit. */

import type { CallAnswer } from "../tool_host.ts";
import type { Toolset, ToolsetCall } from "../toolset.ts";
import { refusalText, WorkspaceRefusal } from "../workspace_files.ts";

const pathSchema = { type: "string" };

/** Names, descriptions, parameters and all orders are part of the version, because models were trained on this text. */
export const FILES_TOOLSET: Toolset = {
  name: "files",
  version: "1",
  tools: [
    {
      name: "read_file",
      description: "Read a file.",
      parameters: { type: "object", properties: { path: pathSchema }, required: ["path"] },
    },
    {
      name: "write_file",
      description: "Write a file.",
      parameters: {
        type: "object",
        properties: { path: pathSchema, content: { type: "string" } },
        required: ["path", "content"],
      },
    },
    {
      name: "list_dir",
      description: "List a directory.",
      parameters: { type: "object", properties: { path: pathSchema }, required: ["path"] },
    },
    { name: "submit", description: "Finish the task.", parameters: { type: "object", properties: {} } },
  ],
  run: runFilesTool,
};

const ERRORS: Record<string, string> = {
  read_file: "error: no such file",
  write_file: "error: cannot write",
  list_dir: "error: no such directory",
};

/** The result texts are part of the toolset's version. */
async function runFilesTool({ call, sandbox }: ToolsetCall): Promise<CallAnswer> {
  if (call.name === "submit") return { result: null, reward: null, done: true };
  const { path, content } = call.arguments as { path: string; content: string };
  const answer = (result: string): CallAnswer => ({ result, reward: null, done: false });
  try {
    if (call.name === "read_file") return answer(await sandbox.read(path));
    if (call.name === "list_dir") return answer(listing(await sandbox.list(path)));
    await sandbox.write(path, content);
    return answer("ok");
  } catch (error) {
    if (!(error instanceof WorkspaceRefusal)) throw error;
    const { reason } = error, outside = "error: path outside workspace";
    return answer(refusalText(reason) ?? (reason === "outside" ? outside : ERRORS[call.name]!));
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
