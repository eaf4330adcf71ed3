/**
 * Writes docs/reference/command_line.md from the commands of cli/. With `--check` it writes nothing and exits with
 * status 1 when the committed page differs.
 */

import type { Argument, Command, Option } from "commander";
import { fileURLToPath } from "node:url";
import type { CliContext } from "../cli/context.ts";
import { buildProgram } from "../cli/program.ts";
import { writeFileAtomic } from "../core/files.ts";

const PAGE = fileURLToPath(new URL("../docs/reference/command_line.md", import.meta.url));

const INTRODUCTION = `# The command line

<!-- Written by scripts/generate_command_reference.ts from cli/: change the commands, then run it again. -->

\`svc\` is \`deno run -A cli.ts\` (\`./dev svc\` finds Deno and a driver first), or the compiled binary. Paths of the command
line resolve against the current folder, paths in a configuration against the configuration's folder.

| Exit code | Meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | a configuration, its data or the command line is wrong: every problem is listed, with file and line |
| 3 | no usable device: the one command that is missing is printed |
| 130 | interrupted |

## The terminal

On a terminal a run shows one line that is written over: what happens inside the update (\`update 2/6 · rollouts 12/32\`,
then \`training\`) or the evaluation (\`held-out 40/200\`), reward and tokens per second of the last update, the time that
is left, and how long the step has taken so far. An update that lost attempts, had groups of equal rewards or learned
nothing leaves its line. Elsewhere a run prints a line for every update; with \`--json\` its events, one JSON object a
line. \`NO_COLOR\` is honoured. Errors are printed on standard error with the prefix \`svc:\`, the reason of a run's failure
too.

The first Ctrl-C finishes the update, writes a checkpoint when \`[checkpoint]\` is configured and leaves; the second
leaves at once. Either prints the command that goes on, with the same overrides, or says what is lost and which lines
of the configuration prevent that. SIGTERM and SIGHUP, which comes when a terminal disappears, do the same; under
\`nohup\` SIGHUP does nothing (Linux). The printed command begins with \`svc\`, or with the environment variable
\`SVC_COMMAND\`: \`./dev svc\` and \`deno task train\` set it to what they were started as.

A run whose standard output is full or closed goes on: standard error says so once, and the log is in the run's folder.
Any other command whose output could not be written exits with status 1.

## Overrides

Commands that load a run configuration take \`key=value\` after it: \`svc train run.toml training.lr=1e-4\`. The value
takes the place of the file's, and is part of the resolved configuration (\`config.toml\` in the run's folder) and of what
a resumed run is held to: resume with the same overrides. It is a TOML value; where the key is a string, quotes may be
left out. A section that the file lacks begins with its first key (\`checkpoint.every_updates=1\`). Keys in lists of tables
(\`[[agent.mcp_servers]]\`) cannot be overridden. An error in an override is printed with the override in place of file
and line.

## What a run takes

\`svc plan\` runs the engine's own constructors on a device that only counts: what it prints is what a run allocates,
component by component, at most. Data and tokenizer are read, values of the model are not. Where the size of the device's
memory is known (WebGPU does not tell it: give it with \`--vram\`) or a tensor is larger than the device binds, a run that
cannot fit ends the command with 1, and standard error says which keys save how much. With \`--vram\` on a machine without a
GPU an ordinary one is assumed: half precision, and 2 GiB at most in one piece.

## Untrusted text and limits

What files, models and tools say is shown with \`�\` for control characters, directional overrides and invisible characters,
and its further lines are set in: it can neither steer the terminal nor pass for a line of \`svc\`. JSON has them escaped
and stays exact.

A configuration has at most 1 MiB and 10,000 values, nested up to 64 levels; JSON of data and of tool calls nests up to 64
levels, and a line of data has at most 16 MiB. A message lists up to 200 problems.
`;

/** The commands with an action, by their full names. */
function* leaves(command: Command, path: string): Generator<[string, Command]> {
  if (command.commands.length === 0) yield [path, command];
  for (const inner of command.commands) yield* leaves(inner, `${path} ${inner.name()}`);
}

function row(term: string, { description, defaultValue, argChoices }: Argument | Option): string {
  const fallback = defaultValue === undefined ? "" : ` (default ${JSON.stringify(defaultValue)})`;
  const choices = argChoices ? `: ${argChoices.join(" or ")}` : "";
  return `| \`${term.replaceAll("|", "\\|")}\` | ${description}${choices}${fallback} |`;
}

function commandText([path, command]: [string, Command]): string {
  const rows = [
    ...command.registeredArguments.map((argument) => row(argument.name(), argument)),
    ...command.options.map((option) => row(option.flags, option)),
  ];
  const description = command.description();
  const sentence = `${description[0]!.toUpperCase()}${description.slice(1)}.`;
  const table = rows.length === 0 ? "" : `\n| Argument | Meaning |\n|---|---|\n${rows.join("\n")}\n`;
  const usage = command.usage().replace("[options]", command.options.length > 0 ? "[options]" : "").trim();
  return `## ${path}\n\n${sentence}\n\n    ${`${path} ${usage}`.trim()}\n${table}`;
}

/** The page's text. */
export function commandReference(): string {
  // Building the commands does not use the context.
  const program = buildProgram({ terminal: {} } as CliContext);
  return [INTRODUCTION, ...[...leaves(program, "svc")].map(commandText)].join("\n");
}

if (import.meta.main) {
  const text = commandReference();
  if (!Deno.args.includes("--check")) await writeFileAtomic(PAGE, text);
  else if (await Deno.readTextFile(PAGE).catch(() => "") !== text) {
    console.error(`${PAGE} is not what cli/ says: run \`deno run -A scripts/generate_command_reference.ts\``);
    Deno.exit(1);
  }
}
