/** Built-in tools for files. Their definitions and texts are part of the versions of the toolsets that have them. */

import type { Sandbox } from "./sandbox.ts";
import { type BuiltinTool, countParameter, defineTool, onPath, textParameter } from "./builtin_tool.ts";

/** The most characters of a file in a result of `read_file`, and of a listing in one of `list_dir`. */
export const MAX_READ_CHARS = 16_000;

const path = textParameter("Path in the workspace.");
const NO_FILE = "error: no such file";
const NOT_TEXT = "error: not a text file in UTF-8";

/** Text with a zero byte or with bytes that were no UTF-8 would not be written back as it was. */
const isText = (content: string) => !/[\0\ufffd]/.test(content);

const READ_FILE: BuiltinTool = {
  definition: defineTool({
    name: "read_file",
    description: "Read a text file. A long file is cut: read on with offset, and set limit for fewer lines.",
    parameters: {
      path,
      offset: countParameter("First line to read, from 1. Default: 1."),
      limit: countParameter("Number of lines. Default: as many as fit."),
    },
    optional: ["offset", "limit"],
  }),
  run: ({ path, offset = 1, limit }: { path: string; offset?: number; limit?: number }, sandbox) =>
    onPath(NO_FILE, async () => {
      if (offset < 1 || (limit ?? 1) < 1) return "error: offset and limit must be at least 1";
      const content = await sandbox.read(path);
      return isText(content) ? linesFrom(content, offset, limit) : NOT_TEXT;
    }),
};

/** Some lines of a file; a last line says which when they are not all. */
function linesFrom(content: string, offset: number, limit = Infinity): string {
  const lines = content.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  if (offset > Math.max(1, lines.length)) return `error: the file has ${lines.length} lines`;
  let end = offset - 1, chars = 0;
  while (end < lines.length && end - (offset - 1) < limit) {
    chars += lines[end]!.length;
    if (chars > MAX_READ_CHARS) break;
    end++;
  }
  if (end === offset - 1 && lines.length > 0) {
    const start = lines[end]!.slice(0, MAX_READ_CHARS).toWellFormed();
    return `${start}\n[line ${offset} of ${lines.length} is cut: it has more than ${MAX_READ_CHARS} characters]`;
  }
  const shown = lines.slice(offset - 1, end).join("");
  if (offset === 1 && end === lines.length) return shown;
  return `${shown}${shown.endsWith("\n") ? "" : "\n"}[lines ${offset} to ${end} of ${lines.length}]`;
}

const WRITE_FILE: BuiltinTool = {
  definition: defineTool({
    name: "write_file",
    description: "Write a text file. It replaces what is there and makes missing directories.",
    parameters: { path, content: textParameter("The new content of the file.") },
  }),
  run: ({ path, content }: { path: string; content: string }, sandbox) => write(path, content, sandbox),
};

function write(path: string, content: string, sandbox: Sandbox): Promise<string> {
  return onPath("error: cannot write there", async () => {
    await sandbox.write(path, content);
    return "ok";
  });
}

const EDIT_FILE: BuiltinTool = {
  definition: defineTool({
    name: "edit_file",
    description: "Replace a piece of a text file. The old text must occur exactly once, with all its spaces.",
    parameters: {
      path,
      old_text: textParameter("The text to replace, copied from the file."),
      new_text: textParameter("The text in its place."),
    },
  }),
  run: (args: { path: string; old_text: string; new_text: string }, sandbox) =>
    onPath(NO_FILE, async () => {
      const { path, old_text, new_text } = args;
      if (old_text === "") return "error: old_text is empty";
      if (old_text === new_text) return "error: old_text and new_text are the same";
      const content = await sandbox.read(path);
      if (!isText(content)) return NOT_TEXT;
      const places = occurrences(content, old_text);
      if (places === 0) return "error: old_text does not occur in the file";
      if (places > 1) {
        return `error: old_text occurs ${places} times; add lines around it until it occurs once`;
      }
      const at = content.indexOf(old_text);
      return await write(
        path,
        `${content.slice(0, at)}${new_text}${content.slice(at + old_text.length)}`,
        sandbox,
      );
    }),
};

/** How often a text occurs, overlaps included. */
function occurrences(content: string, text: string): number {
  let count = 0;
  for (let at = content.indexOf(text); at >= 0; at = content.indexOf(text, at + 1)) count++;
  return count;
}

const LIST_DIR: BuiltinTool = {
  definition: defineTool({
    name: "list_dir",
    description: "List the names in a directory, sorted, one on each line. Directories end in a slash.",
    parameters: { path: textParameter("Path in the workspace. Default: the workspace.") },
    optional: ["path"],
  }),
  run: ({ path = "." }: { path?: string }, sandbox) =>
    onPath("error: no such directory", async () => listing(await sandbox.list(path))),
};

function listing(entries: readonly { name: string; directory: boolean }[]): string {
  if (entries.length === 0) return "[empty]";
  const names = entries.map(({ name, directory }) => directory ? `${name}/` : name).sort(byUnit).map(
    shownPath,
  );
  let chars = 0;
  const fitting = names.filter((name) => (chars += name.length + 1) <= MAX_READ_CHARS);
  const left = names.length - fitting.length;
  return [...fitting, ...left > 0 ? [`[${left} more are left out]`] : []].join("\n");
}

const byUnit = (a: string, b: string) => a < b ? -1 : a > b ? 1 : 0;

/** A path on one line: in quotes, as JSON, when it has a character that would be taken for something else. */
export function shownPath(path: string): string {
  // deno-lint-ignore no-control-regex
  return /[\x00-\x1f\x7f"]|[\u2028\u2029]/.test(path) ? JSON.stringify(path) : path;
}

/** The tools for files, in the order of a toolset. */
export const FILE_TOOLS: readonly BuiltinTool[] = [READ_FILE, WRITE_FILE, EDIT_FILE, LIST_DIR];
