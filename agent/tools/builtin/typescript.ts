/** The toolset `typescript`: programs, files and tests of a TypeScript project, with Deno. */

import { type BuiltinTool, defineTool, SUBMIT, textParameter, toolsetFrom } from "../builtin_tool.ts";
import { commandText, runTool } from "../command_text.ts";
import { FILE_TOOLS } from "../file_tools.ts";
import { BASH, GREP, testsTool } from "../program_tools.ts";
import type { Sandbox } from "../sandbox.ts";
import type { Toolset } from "../toolset.ts";

/** The most memory of JavaScript objects, in MiB. Typed arrays are outside it. */
export const MAX_HEAP_MB = 512;

/** Nothing but the workspace: no network, programs, environment variables, facts about the machine, or native code. */
const SCOPE = [
  ...["--quiet", "--no-prompt", "--no-lock", "--no-remote", "--no-npm", "--allow-read=.", "--allow-write=."],
  `--v8-flags=--max-old-space-size=${MAX_HEAP_MB}`,
];

/** The file of the workspace in which the code lies while it runs. */
const CODE_FILE = ".svc_typescript.ts";

/**
 * Runs the code on the standard input. Deno loads what a program imports without asking for permissions, except in a
 * module whose name it cannot know before. A link in the place of the file is not followed.
 */
const RUN_CODE = `
const code = await new Response(Deno.stdin.readable).text();
const place = Deno.cwd() + "/${CODE_FILE}";
await Deno.remove(place).catch(() => {});
await Deno.writeTextFile(place, code, { createNew: true });
let failed = false;
try {
  await import("file://" + place.split("/").map(encodeURIComponent).join("/"));
} catch (error) {
  failed = true;
  console.error(error instanceof Error ? error.stack ?? error.message : error);
}
await Deno.remove(place).catch(() => {});
if (failed) Deno.exit(1);
`;

const RUN_CODE_URL = `data:application/typescript,${encodeURIComponent(RUN_CODE)}`;

/** Uses the project's own configuration, and none of a directory around the workspace. */
async function configFlag(sandbox: Sandbox): Promise<string> {
  const names = (await sandbox.list(".").catch(() => [])).map(({ name }) => name);
  const name = ["deno.json", "deno.jsonc"].find((name) => names.includes(name));
  return name ? `--config=${name}` : "--no-config";
}

const TYPESCRIPT: BuiltinTool = {
  definition: defineTool({
    name: "typescript",
    description: "Run TypeScript code with Deno in a new process in the workspace, and get what it prints. " +
      "It can read and write the workspace and nothing else. Types are not checked.",
    parameters: { code: textParameter("The code, a module.") },
  }),
  async run({ code }: { code: string }, sandbox, signal) {
    const argv = ["deno", "run", await configFlag(sandbox), ...SCOPE, RUN_CODE_URL];
    return withoutPlace(commandText(await runTool({ argv, stdin: code }, sandbox, signal)));
  },
};

/** Errors name the code by a short name, and nothing of what runs it. */
function withoutPlace(text: string): string {
  const own = text.replaceAll(/^.*data:application\/typescript.*\n?/gm, "");
  return own.replaceAll(/(?:file:\/\/)?[^\s()'"]*\.svc_typescript\.ts/g, "code.ts");
}

const RUN_TESTS = testsTool(
  "Check the types of the project's tests, and run them with deno test.",
  async (sandbox) => ["deno", "test", await configFlag(sandbox), ...SCOPE, "--"],
);

/** Names, descriptions, parameters, texts and all orders are part of the version. */
export const TYPESCRIPT_TOOLSET: Toolset = toolsetFrom({
  name: "typescript",
  version: "1",
  tools: [BASH, TYPESCRIPT, RUN_TESTS, ...FILE_TOOLS, GREP, SUBMIT],
});
