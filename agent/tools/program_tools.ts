/**
 * Built-in tools that run programs which every sandbox has. Their definitions and texts are part of the versions of the
 * toolsets that have them.
 */

import {
  type BuiltinTool,
  countParameter,
  defineTool,
  onProgramPath,
  textParameter,
} from "./builtin_tool.ts";
import { commandText, runTool } from "./command_text.ts";
import { shownPath } from "./file_tools.ts";
import type { CommandResult, Sandbox } from "./sandbox.ts";

/** The most bytes of a command of `bash`: an argument of a program has at most 128 KiB on Linux. */
export const MAX_COMMAND_BYTES = 100_000;

/** Why a text cannot be an argument of a program; null when it can. */
export function argumentProblem(name: string, text: string): string | null {
  if (text.includes("\0")) return `error: the ${name} has a zero byte`;
  if (new TextEncoder().encode(text).length <= MAX_COMMAND_BYTES) return null;
  return `error: the ${name} is longer than ${MAX_COMMAND_BYTES} bytes; write it to a file first`;
}

/** The tool that runs a command of a shell. */
export const BASH: BuiltinTool = {
  definition: defineTool({
    name: "bash",
    description:
      "Run a command with bash in the workspace, and get its output. Every call is a new shell without input.",
    parameters: { command: textParameter("The command.") },
  }),
  async run({ command }: { command: string }, sandbox, signal) {
    return argumentProblem("command", command) ??
      commandText(await runTool({ argv: ["bash", "-c", command] }, sandbox, signal));
  },
};

/**
 * The tool `run_tests` of a toolset.
 *
 * @param command The program with its arguments, which a path follows.
 */
export function testsTool(
  description: string,
  command: (sandbox: Sandbox) => Promise<readonly string[]> | readonly string[],
): BuiltinTool {
  return {
    definition: defineTool({
      name: "run_tests",
      description,
      parameters: { path: textParameter("File or directory with tests. Default: all tests.") },
      optional: ["path"],
    }),
    run({ path }: { path?: string }, sandbox, signal) {
      const runTests = async (...args: string[]) =>
        commandText(await runTool({ argv: [...await command(sandbox), ...args] }, sandbox, signal));
      return path === undefined ? runTests() : onProgramPath(path, sandbox, (place) => runTests(place));
    },
  };
}

/** The matches that `grep` shows unless a call says otherwise. */
export const DEFAULT_MATCHES = 100;

/** The most matches that a call can ask for. */
export const MAX_MATCHES = 1000;

/** The most characters of a line that matches. */
export const MAX_LINE_CHARS = 300;

/** The most characters of all matches of a call. */
export const MAX_GREP_CHARS = 16_000;

/** The tool that searches files. */
export const GREP: BuiltinTool = {
  definition: defineTool({
    name: "grep",
    description:
      "Search text files for lines that match a regular expression (grep -E). Gives path:line:text. Links are not followed.",
    parameters: {
      pattern: textParameter("The extended regular expression."),
      path: textParameter("File, or directory to search with all below it. Default: the workspace."),
      max_matches: countParameter(`Most matches to show. Default: ${DEFAULT_MATCHES}.`),
    },
    optional: ["path", "max_matches"],
  }),
  run(args: { pattern: string; path?: string; max_matches?: number }, sandbox, signal) {
    const { pattern, path = ".", max_matches = DEFAULT_MATCHES } = args;
    if (max_matches < 1 || max_matches > MAX_MATCHES) {
      return Promise.resolve(`error: max_matches must be from 1 to ${MAX_MATCHES}`);
    }
    const problem = argumentProblem("pattern", pattern);
    if (problem !== null) return Promise.resolve(problem);
    return onProgramPath(path, sandbox, async (place) => {
      // -I: not in binary files; -D: not in pipes, which would be waited for; -Z: a zero byte ends each name.
      const options = ["-rnHIZEs", "-D", "skip", "-m", String(max_matches + 1), "-e", pattern];
      const result = await runTool({ argv: ["grep", ...options, "--", place] }, sandbox, signal);
      return matchesText(result, max_matches);
    });
  },
};

function matchesText(result: CommandResult, max_matches: number): string {
  const { stdout, ended, code, capped } = result;
  const found = [...stdout.matchAll(/([^\0]*)\0(\d+):([^\n]*)(?:\n|$)/g)];
  if (ended !== "exited" || (code! > 1 && found.length === 0)) {
    return ended === "exited"
      ? `error: ${result.stderr.trim() || `grep: status ${code}`}`
      : commandText(result);
  }
  if (found.length === 0) return "[no matches]";
  let chars = 0;
  const lines = found.slice(0, max_matches).map(([, path, line, text]) => {
    const cut = text!.length > MAX_LINE_CHARS ? `${text!.slice(0, MAX_LINE_CHARS).toWellFormed()} ...` : text;
    return `${shownPath(path!.replace(/^(?:\.\/)+/, ""))}:${line}:${cut}`;
  }).filter((line) => (chars += line.length + 1) <= MAX_GREP_CHARS);
  const is_cut = capped || lines.length < found.length;
  return [...lines, ...is_cut ? ["[more matches are left out]"] : []].join("\n");
}
