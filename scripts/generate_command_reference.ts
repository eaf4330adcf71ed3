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

\`svc\` is \`deno run -A cli.ts\` (\`./dev svc\` finds Deno and a driver first), a bundle or a binary
([installing](../guides/install.md)). Paths of the command line resolve against the current folder, paths in a
configuration against the configuration's folder.

| Exit status | Meaning |
|---|---|
| 0 | done |
| 1 | failed |
| 2 | an error in the configuration, its data or the command line: all problems are listed, with file and line |
| 3 | no usable device: the one command that would install it is printed, or the process that has it is named |
| 130 | interrupted |

## The terminal

On a terminal a run shows a status line, which is overwritten: the progress of the update (\`update 2/6 · rollouts 12/32\`,
then \`training\`) or of the evaluation (\`held-out 40/200\`), reward and tokens per second of the last update, the
estimated time left, and the time of the current step. The line of an update stays if it lost attempts, had groups of
equal rewards or trained nothing. Without a terminal a run prints a line for every update; with \`--json\` its events, one
JSON object a line. \`NO_COLOR\` is respected. Errors are printed on standard error with the prefix \`svc:\`, including the
reason of a run's failure.

The first Ctrl-C finishes the update, writes a checkpoint if \`[checkpoint]\` is configured, and exits. The second exits at
once. Both print the command to continue, with the same overrides, or say what is lost and which lines of the
configuration prevent that. SIGTERM and SIGHUP, which comes when a terminal disappears, do the same; a SIGHUP after
another signal changes nothing, because some shells send a second one. Under \`nohup\` SIGHUP does nothing (Linux). The
printed command starts with \`svc\`, or with the environment variable \`SVC_COMMAND\`, which \`./dev svc\` and
\`deno task train\` set to their own names. A completed run that exports trajectories prints the command that shows them in
the browser.

A run continues when its standard output is full or closed: standard error says so once, and the log is in the run's
folder. Any other command exits with status 1 if its output could not be written.

## Overrides

Commands that load a run configuration accept \`key=value\` after it: \`svc train run.toml training.lr=1e-4\`. The value
replaces that of the file and becomes part of the resolved configuration (\`config.toml\` in the run's folder), which a
resumed run must keep: resume with the same overrides. The value is a TOML value; quotes may be omitted for string keys. A
section that the file lacks is created by its first key (\`checkpoint.every_updates=1\`). Keys in lists of tables
(\`[[agent.mcp_servers]]\`) cannot be overridden. An error in an override is printed with the override in place of file
and line.

## The memory of a run

\`svc plan\` runs the engine's own constructors on a device that only counts: it prints the most memory that a run
allocates, by component. It reads data and tokenizer, but not the values of the model. If the size of the device's memory
is known (WebGPU does not report it; give it with \`--vram\`) or a tensor exceeds the device's binding limit, a run that
cannot fit makes the command exit with status 1, and standard error says which keys save how much. With \`--vram\` on a
machine without a GPU a typical one is assumed: half precision, and at most 2 GiB in one buffer.

The machine's memory is compared as well, with all of it, or on a server with \`limits.ram\`. Counted is what follows from the
model and the run: \`host_checkpoint\`, AdamW's moments while a checkpoint is written and the adapter and its moments before
an update that changes it more than once, and on a software device everything on the device and \`host_textures\`, at most
what its textures take (docs/decisions/software_kernels.md). The program itself, its data and the driver come on top.

## Untrusted text and limits

Text from files, models and tools is shown with \`�\` for control characters, directional overrides and invisible
characters, and its lines after the first are indented: it can neither control the terminal nor look like a line of
\`svc\`. JSON escapes these characters and stays exact.

A configuration has at most 1 MiB and 10,000 values, nested up to 64 levels. JSON of data and of tool calls nests up to 64
levels, and a line of data has at most 16 MiB. A message lists up to 200 problems.
`;

/** The commands with an action, by their full names. */
function* leaves(command: Command, path: string): Generator<[string, Command]> {
  if (command.commands.length === 0) yield [path, command];
  for (const inner of command.createHelp().visibleCommands(command)) {
    if (command.commands.includes(inner)) yield* leaves(inner, `${path} ${inner.name()}`);
  }
}

function row(term: string, { description, defaultValue, argChoices }: Argument | Option): string {
  const fallback = defaultValue === undefined ? "" : ` (default ${JSON.stringify(defaultValue)})`;
  const choices = argChoices ? `: ${argChoices.join(" or ")}` : "";
  return `| \`${term.replaceAll("|", "\\|")}\` | ${description}${choices}${fallback} |`;
}

function commandText([path, command]: [string, Command]): string {
  const rows = [
    ...command.registeredArguments.map((argument) => row(argument.name(), argument)),
    ...command.options.filter(({ hidden }) => !hidden).map((option) => row(option.flags, option)),
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
