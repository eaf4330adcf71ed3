/** The command line: commands, arguments, and their errors. */

import { Command, CommanderError } from "commander";
import { errorText } from "../core/errors.ts";
import { indented, printable } from "../core/text.ts";
import { VERSION_TEXT } from "../core/version.ts";
import { addCollectCommand } from "./collect.ts";
import { addConfigCommand } from "./config.ts";
import type { CliContext } from "./context.ts";
import { addConvertCommand } from "./convert.ts";
import { addDoctorCommand } from "./doctor.ts";
import { addEvalCommand } from "./eval.ts";
import { EXIT, exitCodeOf } from "./exit_codes.ts";
import { addInitCommand } from "./init.ts";
import { addInspectCommand } from "./inspect.ts";
import { addJudgeCommand } from "./judge.ts";
import { addPlanCommand } from "./plan.ts";
import { addProbeCommands } from "./probe.ts";
import { addImagesCommand } from "./images.ts";
import { addScenariosCommand } from "./scenarios.ts";
import { addToolsCommand } from "./tools.ts";
import { addTrainCommand } from "./train.ts";

/** Formats a usage error like every other error; commander's own prefix is `error: `. */
function usageError(text: string): string {
  return indented(`svc: Cannot read the command line: ${text.trimEnd().replace(/^error: /, "")}`);
}

/** All commands of `svc`. */
export function buildProgram(context: CliContext): Command {
  const { terminal } = context;
  const program = new Command("svc");
  program.description(
    "Fine-tunes language models with low-rank adapters, from examples, preference pairs and rewards.",
  )
    .version(VERSION_TEXT, "-V, --version", "print the version")
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.write(text),
      writeErr: (text) => terminal.error(printable(text.trimEnd())),
      outputError: (text, write) => write(usageError(text)),
      getOutHasColors: () => terminal.color,
      getErrHasColors: () => terminal.color,
    })
    .showHelpAfterError("  (--help shows the arguments)");
  addTrainCommand(program, context);
  addEvalCommand(program, context);
  addCollectCommand(program, context);
  addPlanCommand(program, context);
  addToolsCommand(program, context);
  addJudgeCommand(program, context);
  addScenariosCommand(program, context);
  addImagesCommand(program, context);
  addInspectCommand(program, context);
  addDoctorCommand(program, context);
  addConvertCommand(program, context);
  addInitCommand(program, context);
  addConfigCommand(program, context);
  addProbeCommands(program, context);
  program.command("server").description("run the HTTP API (as svc-server does)")
    .argument(
      "[arguments...]",
      "those of svc-server, such as the server's configuration (TOML); --help lists them",
    )
    .helpOption(false).allowUnknownOption()
    .action(async (args: string[]) => context.setExitCode(await context.runServer(args)));
  return program;
}

/** Runs the command in `args` and returns the exit status; errors have been printed. */
export async function runCli(
  args: readonly string[],
  context: Omit<CliContext, "setExitCode">,
): Promise<number> {
  const code = await runCommand(args, context);
  // A run keeps its log in its folder, but the output of any other command is its result.
  const has_lost_result = context.terminal.is_lost && args[0] !== "train";
  return has_lost_result && code === EXIT.done ? EXIT.failed : code;
}

async function runCommand(
  args: readonly string[],
  context: Omit<CliContext, "setExitCode">,
): Promise<number> {
  let code: number = EXIT.done;
  const setExitCode = (ended: number) => code = ended;
  try {
    await buildProgram({ ...context, setExitCode }).parseAsync([...args], { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.done : EXIT.usage;
    // Text from files and models must not control the terminal or start a line of its own.
    context.terminal.error(printable(indented(`svc: ${errorText(error)}`)));
    return exitCodeOf(error);
  }
}
