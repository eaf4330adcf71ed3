/** The toolset `python`: programs, files and tests of a Python project. */

import { type BuiltinTool, defineTool, SUBMIT, textParameter, toolsetFrom } from "../builtin_tool.ts";
import { commandText, runTool } from "../command_text.ts";
import { FILE_TOOLS } from "../file_tools.ts";
import { BASH, GREP, testsTool } from "../program_tools.ts";
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

const RUN_TESTS = testsTool(
  "Run the project's tests with pytest, or with unittest where there is no pytest.",
  () => ["python3", "-c", RUN_TESTS_CODE],
);

/** Names, descriptions, parameters, texts and all orders are part of the version. */
export const PYTHON_TOOLSET: Toolset = toolsetFrom({
  name: "python",
  version: "1",
  tools: [BASH, PYTHON, RUN_TESTS, ...FILE_TOOLS, GREP, SUBMIT],
});
