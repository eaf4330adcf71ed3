/** The toolset `python`: programs, files and tests of a Python project. */

import {
  type BuiltinTool,
  defineTool,
  onProgramPath,
  SUBMIT,
  textParameter,
  toolsetFrom,
} from "../builtin_tool.ts";
import { commandText, runTool } from "../command_text.ts";
import { FILE_TOOLS } from "../file_tools.ts";
import { BASH, GREP } from "../program_tools.ts";
import type { Sandbox } from "../sandbox.ts";
import type { Toolset } from "../toolset.ts";

const PYTHON: BuiltinTool = {
  definition: defineTool({
    name: "python",
    description:
      "Run Python code in a new process in the workspace, and get what it prints. Only printed values are shown.",
    parameters: { code: textParameter("The code.") },
  }),
  // The code is the standard input, which has no limit of its length; input() finds its end.
  run: async ({ code }: { code: string }, sandbox, signal) =>
    commandText(await runTool({ argv: ["python3", "-"], stdin: code }, sandbox, signal)),
};

/** Without pytest, the tests are those that unittest discovers: in a directory `tests` or `test`, else the workspace. */
const RUN_TESTS_CODE = `
import importlib.util, os, sys
path = sys.argv[1] if len(sys.argv) > 1 else None
if importlib.util.find_spec("pytest"):
    args = ["pytest", "-q", "--color=no", "-p", "no:cacheprovider"] + ([path] if path else [])
elif path and not os.path.isdir(path):
    args = ["unittest", path]
else:
    start = path or next((name for name in ("tests", "test") if os.path.isdir(name)), ".")
    args = ["unittest", "discover", "-s", start]
os.execv(sys.executable, [sys.executable, "-m", *args])
`;

const RUN_TESTS: BuiltinTool = {
  definition: defineTool({
    name: "run_tests",
    description: "Run the project's tests with pytest, or with unittest where there is no pytest.",
    parameters: { path: textParameter("File or directory with tests. Default: all tests.") },
    optional: ["path"],
  }),
  run({ path }: { path?: string }, sandbox, signal) {
    if (path === undefined) return runTests([], sandbox, signal);
    return onProgramPath(path, sandbox, (place) => runTests([place], sandbox, signal));
  },
};

async function runTests(args: string[], sandbox: Sandbox, signal: AbortSignal): Promise<string> {
  return commandText(await runTool({ argv: ["python3", "-c", RUN_TESTS_CODE, ...args] }, sandbox, signal));
}

/** Names, descriptions, parameters, texts and all orders are part of the version. */
export const PYTHON_TOOLSET: Toolset = toolsetFrom({
  name: "python",
  version: "1",
  tools: [BASH, PYTHON, RUN_TESTS, ...FILE_TOOLS, GREP, SUBMIT],
});
